package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/sutler-dev/sutler/operator"
)

// statusOf says how the operator's pod is doing, in the words of the cluster.
func statusOf(s *seen) operator.Status {
	if s.pod == nil {
		if s.set == nil {
			return operator.Status{}
		}
		return operator.Status{Phase: operator.Waiting, Message: "there is no pod yet", Since: s.set.CreationTimestamp.Time}
	}
	pod := s.pod
	switch {
	case pod.DeletionTimestamp != nil:
		return operator.Status{Phase: operator.Terminated, Message: "the pod is terminating", Since: pod.DeletionTimestamp.Time}
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return operator.Status{
			Phase:   operator.Terminated,
			Message: line("the pod has ended", pod.Status.Reason, pod.Status.Message),
			Since:   pod.CreationTimestamp.Time,
		}
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if status, ok := containerStatus(pod, c, true); ok {
			return status
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != operatorContainer {
			continue
		}
		if status, ok := containerStatus(pod, c, false); ok {
			return status
		}
	}
	return pending(pod)
}

// containerStatus returns the status that a container gives its pod, if it does.
func containerStatus(pod *corev1.Pod, c corev1.ContainerStatus, first bool) (operator.Status, bool) {
	switch state := c.State; {
	case state.Waiting != nil && state.Waiting.Reason != "PodInitializing" && state.Waiting.Reason != "ContainerCreating":
		message := line(state.Waiting.Reason, state.Waiting.Message)
		if last := c.LastTerminationState.Terminated; last != nil {
			message = line(message, lastWords(last))
		}
		return operator.Status{Phase: operator.Waiting, Message: message, Since: pod.CreationTimestamp.Time}, true
	case state.Terminated != nil && (!first || state.Terminated.ExitCode != 0):
		return operator.Status{
			Phase: operator.Terminated, Message: lastWords(state.Terminated), Since: state.Terminated.FinishedAt.Time,
		}, true
	case state.Running != nil && !first:
		if !c.Ready {
			return operator.Status{
				Phase: operator.Running, Message: "running, and not ready", Since: state.Running.StartedAt.Time,
			}, true
		}
		return operator.Status{Phase: operator.Running, Since: state.Running.StartedAt.Time}, true
	}
	return operator.Status{}, false
}

// pending says why a pod has not started anything: the scheduler tells, or nobody.
func pending(pod *corev1.Pod) operator.Status {
	status := operator.Status{Phase: operator.Waiting, Message: "the pod is starting", Since: pod.CreationTimestamp.Time}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			status.Message = line(strings.ToLower(c.Reason), c.Message)
			status.Since = c.LastTransitionTime.Time
		}
	}
	return status
}

// lastWords are those of a container that has ended. What it wrote itself as its
// termination message is left out: nobody knows what is in there.
func lastWords(t *corev1.ContainerStateTerminated) string {
	return line(fmt.Sprintf("last ended with exit code %d", t.ExitCode), t.Reason)
}

// maxLine bounds a message.
const maxLine = 500

// line makes one line of the parts that say something.
func line(parts ...string) string {
	var said []string
	for _, part := range parts {
		if part = strings.Join(strings.Fields(part), " "); part != "" {
			said = append(said, part)
		}
	}
	out := strings.Join(said, ": ")
	if len(out) > maxLine {
		out = strings.ToValidUTF8(out[:maxLine], "") + "..."
	}
	return out
}

// explain looks for the reason why a set has no pod, which the cluster tells in
// events alone. Without the right to read them the status stays as it is.
func (m *Manager) explain(ctx context.Context, s *seen, status *operator.Status) {
	list, err := m.client.CoreV1().Events(m.config.Namespace).List(ctx, metav1.ListOptions{
		Limit: 100,
		FieldSelector: fields.Set{
			"involvedObject.kind": "StatefulSet", "involvedObject.name": s.operator(), "involvedObject.uid": string(s.set.UID),
			"type": corev1.EventTypeWarning,
		}.String(),
	})
	if err != nil {
		return
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || when(e).After(when(last)) {
			last = e
		}
	}
	if last != nil {
		status.Message = line("there is no pod", last.Reason, last.Message)
		status.Since = when(last)
	}
}

func when(e *corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
