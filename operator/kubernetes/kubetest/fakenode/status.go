package fakenode

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The address of the node, from a range that is kept for documentation.
const nodeIP = "192.0.2.1"

// A fate is what becomes of a container.
type fate int

const (
	creating fate = iota
	pullError
	crashed
	exited
	running
)

// A decision is what is to become of a pod that is to run.
type decision struct {
	// reads is whether a container starts and so reads its files.
	reads bool
	// again is when to look again without anything having changed; 0 is never.
	again time.Duration
	// fates are by container.
	fates map[string]fate
}

// decide works out what becomes of the pod's containers.
func decide(pod *corev1.Pod, b Behaviour, now time.Time) *decision {
	d := &decision{fates: make(map[string]fate)}
	if b.StartAfter.Duration > 0 && !everStarted(pod) {
		started := now
		if pod.Status.StartTime != nil {
			// Kubernetes keeps whole seconds. Too late does no harm.
			started = pod.Status.StartTime.Add(time.Second)
		}
		if wait := b.StartAfter.Duration - now.Sub(started); wait > 0 {
			d.again = wait
			return d
		}
	}
	troubled := b.Container
	if troubled == "" && len(pod.Spec.Containers) > 0 {
		troubled = pod.Spec.Containers[0].Name
	}
	// Init containers run one after another. None after one in trouble starts,
	// and no other container.
	for _, container := range pod.Spec.InitContainers {
		d.fates[container.Name] = d.fate(pod.Status.InitContainerStatuses, container.Name, troubled, b)
		if d.fates[container.Name] != running {
			return d
		}
	}
	for _, container := range pod.Spec.Containers {
		d.fates[container.Name] = d.fate(pod.Status.ContainerStatuses, container.Name, troubled, b)
	}
	return d
}

// fate returns that of one container and notes whether it reads.
func (d *decision) fate(statuses []corev1.ContainerStatus, name, troubled string, b Behaviour) fate {
	old := find(statuses, name)
	is := running
	if name == troubled {
		switch {
		case b.PullError != "" && old.ContainerID == "":
			return pullError
		case b.Crash != "":
			is = crashed
		case b.Exit != "":
			is = exited
		}
	}
	runs := old.State.Running != nil || completed(old)
	if old.ContainerID == "" || is == running && !runs {
		d.reads = true
	}
	return is
}

// completed says whether an init container has done its work.
func completed(status corev1.ContainerStatus) bool {
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
}

// everStarted says whether any container has been started.
func everStarted(pod *corev1.Pod) bool {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range statuses {
			if status.ContainerID != "" {
				return true
			}
		}
	}
	return false
}

func find(statuses []corev1.ContainerStatus, name string) corev1.ContainerStatus {
	for _, status := range statuses {
		if status.Name == name {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// render returns the status that says so. What was said before and still holds is
// taken over, so that a second call changes nothing.
func render(pod *corev1.Pod, b Behaviour, d *decision, now time.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	at := metav1.NewTime(now.Truncate(time.Second))
	if status.StartTime == nil {
		status.StartTime = &at
	}
	status.ObservedGeneration = pod.Generation
	status.HostIP, status.HostIPs = nodeIP, []corev1.HostIP{{IP: nodeIP}}

	initialized, begun, ready := true, false, !b.NeverReady
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, container := range pod.Spec.InitContainers {
		old := find(pod.Status.InitContainerStatuses, container.Name)
		said := containerStatus(pod, container, old, b, d.fates[container.Name], at)
		if d.fates[container.Name] == running {
			said.State = old.State
			said.Ready, said.Started = true, new(bool)
			if !completed(old) {
				said.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					Reason: "Completed", StartedAt: at, FinishedAt: at, ContainerID: said.ContainerID,
				}}
			}
		} else {
			initialized = false
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, said)
	}
	for _, container := range pod.Spec.Containers {
		old := find(pod.Status.ContainerStatuses, container.Name)
		said := containerStatus(pod, container, old, b, d.fates[container.Name], at)
		if said.State.Waiting != nil && said.State.Waiting.Reason == reasonCreating && len(pod.Spec.InitContainers) > 0 && d.begun() {
			said.State.Waiting.Reason = "PodInitializing"
		}
		begun = begun || said.ContainerID != ""
		ready = ready && said.Ready
		status.ContainerStatuses = append(status.ContainerStatuses, said)
	}

	status.Phase = corev1.PodPending
	if begun {
		status.Phase = corev1.PodRunning
	}
	if d.begun() {
		status.PodIP = podIP(pod.UID)
		status.PodIPs = []corev1.PodIP{{IP: status.PodIP}}
	}
	setCondition(&status, corev1.PodReadyToStartContainers, d.begun(), "", at)
	setCondition(&status, corev1.PodInitialized, initialized && d.begun(), "ContainersNotInitialized", at)
	setCondition(&status, corev1.ContainersReady, ready, "ContainersNotReady", at)
	setCondition(&status, corev1.PodReady, ready, "ContainersNotReady", at)
	return status
}

// begun says whether the pod's sandbox is there.
func (d *decision) begun() bool { return len(d.fates) > 0 }

const reasonCreating = "ContainerCreating"

func containerStatus(pod *corev1.Pod, container corev1.Container, old corev1.ContainerStatus, b Behaviour, is fate, at metav1.Time) corev1.ContainerStatus {
	said := old
	said.Name, said.Image = container.Name, container.Image
	said.Ready, said.Started = false, new(bool)
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	switch is {
	case creating:
		said.State = waiting(reasonCreating, "")
		return said
	case pullError:
		said.State = waiting("ErrImagePull", b.PullError)
		return said
	case crashed, exited, running:
	}

	said.ImageID = "fake://" + container.Image
	if old.ContainerID == "" {
		said.ContainerID = containerID(pod, container, 0)
	}
	message := b.Crash
	if is == exited {
		message = b.Exit
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", Message: message, StartedAt: at, FinishedAt: at, ContainerID: said.ContainerID,
	}}
	switch is {
	case crashed:
		if old.State.Waiting != nil && old.State.Waiting.Reason == "CrashLoopBackOff" {
			ended = old.LastTerminationState
			ended.Terminated.Message = message
		} else {
			said.RestartCount++
		}
		said.LastTerminationState = ended
		said.State = waiting("CrashLoopBackOff", fmt.Sprintf("back-off 10s restarting failed container=%s pod=%s_%s(%s)",
			container.Name, pod.Name, pod.Namespace, pod.UID))
	case exited:
		if old.State.Terminated != nil {
			ended = old.State
			ended.Terminated.Message = message
		}
		said.State = ended
	case running:
		said.Started = new(true)
		said.Ready = !b.NeverReady
		if old.State.Running != nil {
			break
		}
		if old.State.Terminated != nil && !completed(old) {
			said.LastTerminationState = old.State
			said.RestartCount++
		}
		said.ContainerID = containerID(pod, container, said.RestartCount)
		said.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
	case creating, pullError:
	}
	return said
}

// containerID returns one for a container's n-th start.
func containerID(pod *corev1.Pod, container corev1.Container, n int32) string {
	return fmt.Sprintf("fake://%s/%s/%d", pod.UID, container.Name, n)
}

// setCondition sets one, with the reason if it is false, and leaves when it changed
// last alone unless it does.
func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, is bool, reason string, at metav1.Time) {
	value := corev1.ConditionFalse
	if is {
		value, reason = corev1.ConditionTrue, ""
	}
	condition := corev1.PodCondition{
		Type: kind, Status: value, Reason: reason,
		LastTransitionTime: at, ObservedGeneration: status.ObservedGeneration,
	}
	for i, old := range status.Conditions {
		if old.Type != kind {
			continue
		}
		if old.Status == value {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions[i] = condition
		return
	}
	status.Conditions = append(status.Conditions, condition)
}

// podIP returns an address that is the pod's as long as it lives.
func podIP(uid types.UID) string {
	hash := fnv.New32a()
	hash.Write([]byte(uid))
	ip := make(net.IP, 4)
	binary.BigEndian.PutUint32(ip, 10<<24|1<<22|hash.Sum32()&(1<<22-1))
	return ip.String()
}
