package kubernetes

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sutler-dev/sutler/operator"
)

// Moments in the life of a pod.
func moment(minute int) metav1.Time { return metav1.NewTime(time.Unix(int64(60*minute), 0)) }

const (
	setMade = iota + 1
	podMade
	unscheduled
	began
	ended
	deleted
)

func runningState() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: moment(began)}}
}

func waitingState(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func endedState(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, Message: message, FinishedAt: moment(ended),
	}}
}

func TestStatusSaysHowThePodIsDoing(t *testing.T) {
	install := func(state corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: installContainer, State: state}}
		}
	}
	main := func(ready bool, state corev1.ContainerState, last ...corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			s := corev1.ContainerStatus{Name: operatorContainer, Ready: ready, State: state}
			if len(last) > 0 {
				s.LastTerminationState = last[0]
			}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "side", State: waitingState("ErrImagePull", "not the operator")}, s}
		}
	}
	scheduled := func(status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "not ready"},
				{Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message, LastTransitionTime: moment(unscheduled)},
			}
		}
	}
	phase := func(phase corev1.PodPhase, reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason, p.Status.Message = phase, reason, message }
	}
	const creating, initializing = "ContainerCreating", "PodInitializing"
	for _, test := range []struct {
		name    string
		changes []func(*corev1.Pod)
		phase   operator.Phase
		message string
		since   int
	}{
		{"new", nil, operator.Waiting, "the pod is starting", podMade},
		{
			"unschedulable", []func(*corev1.Pod){scheduled(corev1.ConditionFalse, "Unschedulable", "0/1 nodes are available:\n 1 Insufficient cpu.")},
			operator.Waiting, "unschedulable: 0/1 nodes are available: 1 Insufficient cpu.", unscheduled,
		},
		{"scheduled", []func(*corev1.Pod){scheduled(corev1.ConditionTrue, "", "")}, operator.Waiting, "the pod is starting", podMade},
		{
			"being made", []func(*corev1.Pod){install(waitingState(creating, "")), main(false, waitingState(initializing, ""))},
			operator.Waiting, "the pod is starting", podMade,
		},
		{
			"the operator's image cannot be pulled",
			[]func(*corev1.Pod){install(waitingState("ErrImagePull", "no such image")), main(false, waitingState(initializing, ""))},
			operator.Waiting, "ErrImagePull: no such image", podMade,
		},
		{
			"installing", []func(*corev1.Pod){install(runningState()), main(false, waitingState(initializing, ""))},
			operator.Waiting, "the pod is starting", podMade,
		},
		{
			"installing failed", []func(*corev1.Pod){install(endedState(2, "Error", "secret words")), main(false, waitingState(initializing, ""))},
			operator.Terminated, "last ended with exit code 2: Error", ended,
		},
		{
			"installed", []func(*corev1.Pod){install(endedState(0, "Completed", "")), main(false, waitingState(creating, ""))},
			operator.Waiting, "the pod is starting", podMade,
		},
		{
			"the base image cannot be pulled",
			[]func(*corev1.Pod){install(endedState(0, "Completed", "")), main(false, waitingState("ImagePullBackOff", "back-off"))},
			operator.Waiting, "ImagePullBackOff: back-off", podMade,
		},
		{
			"a Secret is missing", []func(*corev1.Pod){main(false, waitingState("CreateContainerConfigError", `secret "x" not found`))},
			operator.Waiting, `CreateContainerConfigError: secret "x" not found`, podMade,
		},
		{
			"running and ready", []func(*corev1.Pod){install(endedState(0, "Completed", "")), main(true, runningState())},
			operator.Running, "", began,
		},
		{"running and not ready", []func(*corev1.Pod){main(false, runningState())}, operator.Running, "running, and not ready", began},
		{
			"ran before, too", []func(*corev1.Pod){main(true, runningState(), endedState(1, "Error", ""))},
			operator.Running, "", began,
		},
		{
			"crash loop",
			[]func(*corev1.Pod){main(false, waitingState("CrashLoopBackOff", "back-off 10s"), endedState(137, "OOMKilled", "secret words"))},
			operator.Waiting, "CrashLoopBackOff: back-off 10s: last ended with exit code 137: OOMKilled", podMade,
		},
		{"ended", []func(*corev1.Pod){main(false, endedState(1, "Error", "secret words"))}, operator.Terminated, "last ended with exit code 1: Error", ended},
		{"ended well", []func(*corev1.Pod){main(false, endedState(0, "Completed", ""))}, operator.Terminated, "last ended with exit code 0: Completed", ended},
		{
			"evicted", []func(*corev1.Pod){phase(corev1.PodFailed, "Evicted", "the node was low on memory"), main(false, endedState(137, "", ""))},
			operator.Terminated, "the pod has ended: Evicted: the node was low on memory", podMade,
		},
		{"succeeded", []func(*corev1.Pod){phase(corev1.PodSucceeded, "", "")}, operator.Terminated, "the pod has ended", podMade},
		{
			"terminating, whatever else", []func(*corev1.Pod){main(true, runningState()), func(p *corev1.Pod) {
				at := moment(deleted)
				p.DeletionTimestamp = &at
			}},
			operator.Terminated, "the pod is terminating", deleted,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: moment(podMade)}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
			for _, change := range test.changes {
				change(pod)
			}
			want := operator.Status{Phase: test.phase, Message: test.message, Since: moment(test.since).Time}
			for what, change := range map[string]func(*corev1.Pod){"": func(*corev1.Pod) {}, "trimmed ": trimPod} {
				change(pod)
				got := statusOf(&seen{set: &appsv1.StatefulSet{}, pod: pod})
				if got != want {
					t.Errorf("%sgot %+v, want %+v", what, got, want)
				}
			}
		})
	}
}

func TestStatusWithoutPod(t *testing.T) {
	if got := statusOf(&seen{}); got != (operator.Status{}) {
		t.Errorf("of nothing: %+v", got)
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: moment(setMade)}}
	want := operator.Status{Phase: operator.Waiting, Message: "there is no pod yet", Since: moment(setMade).Time}
	if got := statusOf(&seen{set: set}); got != want {
		t.Errorf("of a set alone: %+v", got)
	}
}

func TestMessageIsOneLineOfBoundedLength(t *testing.T) {
	for _, test := range []struct {
		parts []string
		want  string
	}{
		{nil, ""},
		{[]string{"", " \n"}, ""},
		{[]string{"a", "", "b"}, "a: b"},
		{[]string{" a\r\n\tb  c "}, "a b c"},
	} {
		if got := line(test.parts...); got != test.want {
			t.Errorf("line(%q) = %q, want %q", test.parts, got, test.want)
		}
	}
	for size := maxLine - 4; size < maxLine+8; size++ {
		got := line(strings.Repeat("ä", size/2) + strings.Repeat("b", size%2))
		if len(got) > maxLine+3 || !utf8.ValidString(got) {
			t.Errorf("of %d bytes: %d bytes, %q", size, len(got), got)
		}
	}
}

func TestTimeOfAnEventIsInOneOfTwoPlaces(t *testing.T) {
	at := moment(began)
	for name, event := range map[string]*corev1.Event{
		"older kind": {LastTimestamp: at},
		"newer kind": {EventTime: metav1.NewMicroTime(at.Time)},
	} {
		if got := when(event); !got.Equal(at.Time) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
