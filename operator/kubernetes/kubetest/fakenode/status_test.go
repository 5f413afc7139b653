package fakenode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "ns", UID: "u", Generation: 3},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "one", Image: "x"}, {Name: "two", Image: "x"}},
			Containers:     []corev1.Container{{Name: "main", Image: "base"}, {Name: "side", Image: "base"}},
		},
		// What a scheduler has said stays.
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}},
	}
}

// summary tells a status in one line: phase, whether it is ready, and the containers.
func summary(status corev1.PodStatus) string {
	ready := "unready"
	for _, condition := range status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			ready = "ready"
		}
	}
	words := []string{string(status.Phase), ready}
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, s := range statuses {
			word := "?"
			switch {
			case s.State.Running != nil:
				word = "running"
			case s.State.Waiting != nil:
				word = s.State.Waiting.Reason
			case s.State.Terminated != nil:
				word = s.State.Terminated.Reason
			}
			if s.RestartCount > 0 {
				word += fmt.Sprint("+", s.RestartCount)
			}
			if s.LastTerminationState.Terminated != nil {
				word += "(" + s.LastTerminationState.Terminated.Message + ")"
			}
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func TestStatusFollowsBehaviour(t *testing.T) {
	t.Parallel()
	hour := metav1.Duration{Duration: time.Hour}
	type step struct {
		behaviour Behaviour
		want      string
		reads     bool
	}
	running := step{Behaviour{}, "Running ready Completed Completed running running", true}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"nothing special", []step{running}},
		{"slow start", []step{
			{Behaviour{StartAfter: hour}, "Pending unready ContainerCreating ContainerCreating ContainerCreating ContainerCreating", false},
			running,
			// It has started: that cannot be put off any more.
			{Behaviour{StartAfter: hour}, "Running ready Completed Completed running running", false},
		}},
		{"pull", []step{
			{Behaviour{PullError: "no"}, "Running unready Completed Completed ErrImagePull running", true},
			running,
			{Behaviour{PullError: "no"}, "Running ready Completed Completed running running", false},
		}},
		{"pull of an init container", []step{
			{Behaviour{Container: "two", PullError: "no"}, "Pending unready Completed ErrImagePull PodInitializing PodInitializing", true},
			running,
		}},
		{"crash", []step{
			{Behaviour{Crash: "oh"}, "Running unready Completed Completed CrashLoopBackOff+1(oh) running", true},
			{Behaviour{Crash: "no"}, "Running unready Completed Completed CrashLoopBackOff+1(no) running", false},
			{Behaviour{}, "Running ready Completed Completed running+1(no) running", true},
			{Behaviour{Container: "side", Crash: "it"}, "Running unready Completed Completed running+1(no) CrashLoopBackOff+1(it)", false},
		}},
		{"crash of an init container", []step{
			{Behaviour{Container: "one", Crash: "oh"}, "Pending unready CrashLoopBackOff+1(oh) ContainerCreating PodInitializing PodInitializing", true},
			{Behaviour{}, "Running ready Completed+1(oh) Completed running running", true},
		}},
		{"exit", []step{
			running,
			{Behaviour{Exit: "bye"}, "Running unready Completed Completed Error running", false},
			{Behaviour{}, "Running ready Completed Completed running+1(bye) running", true},
		}},
		{"not ready for a while", []step{
			running,
			{Behaviour{NeverReady: true}, "Running unready Completed Completed running running", false},
			{Behaviour{}, "Running ready Completed Completed running running", false},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pod, now := testPod(), time.Now()
			for i, step := range test.steps {
				now = now.Add(time.Minute)
				decided := decide(pod, step.behaviour, now)
				pod.Status = render(pod, step.behaviour, decided, now)
				if got := summary(pod.Status); got != step.want || decided.reads != step.reads {
					t.Errorf("step %d: %s, reads %v\nwant    %s, reads %v", i, got, decided.reads, step.want, step.reads)
				}
				if pod.Status.Conditions[0].Type != corev1.PodScheduled || pod.Status.ObservedGeneration != 3 {
					t.Errorf("step %d: the status is %+v", i, pod.Status)
				}
				// Nothing is written over and over.
				later := now.Add(time.Second)
				again := decide(pod, step.behaviour, later)
				if same := render(pod, step.behaviour, again, later); again.reads || !equality.Semantic.DeepEqual(same, pod.Status) {
					t.Errorf("step %d: it is not settled, reads %v\n%+v\n%+v", i, again.reads, pod.Status, same)
				}
			}
		})
	}
}

func TestSlowStartLooksAgainWhenItIsDue(t *testing.T) {
	t.Parallel()
	pod := testPod()
	behaviour := Behaviour{StartAfter: metav1.Duration{Duration: 10 * time.Second}}
	now := time.Date(2026, 1, 2, 3, 4, 5, 900e6, time.UTC)
	first := decide(pod, behaviour, now)
	if first.again != 10*time.Second {
		t.Errorf("first it looks again after %s", first.again)
	}
	pod.Status = render(pod, behaviour, first, now)
	// The time of start has lost its fraction; it is not early for that.
	if early := decide(pod, behaviour, now.Add(9*time.Second)); early.again <= 0 {
		t.Errorf("a second before it is due: %+v", early)
	}
	if due := decide(pod, behaviour, now.Add(11*time.Second)); due.again != 0 || !due.reads {
		t.Errorf("when it is due: %+v", due)
	}
}

func TestBehaviourOfThePodGoesFirst(t *testing.T) {
	t.Parallel()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: BehaviourConfigMap},
		Data:       map[string]string{"web-0": Behaviour{Crash: "of its name"}.String(), EveryPod: Behaviour{Crash: "of all"}.String()},
	}
	pod := testPod()
	other := testPod()
	other.Name = "db-0"
	annotated := testPod()
	annotated.Annotations = map[string]string{BehaviourAnnotation: Behaviour{Crash: "its own"}.String()}
	for _, test := range []struct {
		pod    *corev1.Pod
		config *corev1.ConfigMap
		want   string
	}{{annotated, config, "its own"}, {pod, config, "of its name"}, {other, config, "of all"}, {pod, nil, ""}} {
		got, err := behaviour(test.pod, test.config)
		if err != nil || got.Crash != test.want {
			t.Errorf("got %q, want %q (%v)", got.Crash, test.want, err)
		}
	}
	annotated.Annotations[BehaviourAnnotation] = "{"
	if _, err := behaviour(annotated, config); !errors.Is(err, errors.NotValid) {
		t.Errorf("an annotation that is no JSON: %v", err)
	}
}

func TestConfigNeedsAClient(t *testing.T) {
	t.Parallel()
	if err := Run(t.Context(), Config{}); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "Client") {
		t.Errorf("got %v", err)
	}
}
