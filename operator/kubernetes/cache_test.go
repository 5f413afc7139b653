package kubernetes

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// setClock is a clock whose time a test sets.
type setClock struct {
	clock.Clock
	mu  sync.Mutex
	now time.Time
}

func (c *setClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *setClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// podAt is a pod as it is at a version.
func podAt(name, uid string, version int, going bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "model", Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version),
		Labels: map[string]string{labelName: name},
	}}
	if going {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return pod
}

func TestOwnWriteCountsUntilTheInformerHasCaughtUp(t *testing.T) {
	wrote := own{obj: podAt("a", "1", 10, false), uid: "1", version: "10"}
	deleted := own{uid: "1", version: "10", deleted: true}
	for _, test := range []struct {
		name string
		own  own
		seen string
		obj  *corev1.Pod // what the informer has
		want bool
	}{
		{"written, nothing listed yet", wrote, "", nil, false},
		{"written, and no version", wrote, "old", nil, false},
		{"created, the informer is before it", wrote, "9", nil, false},
		{"created, the informer is there, and it is gone again", wrote, "10", nil, true},
		{"created, the informer is far on, and it is gone again", wrote, "1000", nil, true},
		{"changed, the informer has the one before", wrote, "9", podAt("a", "1", 9, false), false},
		{"changed, the informer has it", wrote, "10", podAt("a", "1", 10, false), true},
		{"changed, and again by somebody else", wrote, "12", podAt("a", "1", 12, false), true},
		{"changed, the object is ahead of what was said to be seen", wrote, "9", podAt("a", "1", 11, false), true},
		{"changed, the informer is on, and the object is one that did not change since", wrote, "11", podAt("a", "1", 10, false), true},
		{"made anew, the informer has the one before", wrote, "9", podAt("a", "0", 9, true), false},
		{"made anew by somebody else since", wrote, "12", podAt("a", "2", 12, false), true},
		{"versions are numbers", own{uid: "1", version: "100"}, "99", nil, false},
		{"versions are large numbers", own{uid: "1", version: "18446744073709551617"}, "18446744073709551616", nil, false},

		{"deleted, nothing listed yet", deleted, "", nil, false},
		{"deleted, the informer has not seen it at all", deleted, "9", nil, false},
		{"deleted, the informer has it", deleted, "10", podAt("a", "1", 10, false), false},
		{"deleted, the informer has it from before", deleted, "9", podAt("a", "1", 9, false), false},
		{"deleted, somebody changed it in between", deleted, "12", podAt("a", "1", 11, false), false},
		{"deleted, it is going", deleted, "11", podAt("a", "1", 11, true), true},
		{"deleted, it is gone", deleted, "11", nil, true},
		{"deleted, and made anew by somebody else", deleted, "12", podAt("a", "2", 12, false), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var obj object
			if test.obj != nil {
				obj = test.obj
			}
			if got := test.own.caughtUp(test.seen, obj); got != test.want {
				t.Errorf("caughtUp = %v, want %v", got, test.want)
			}
		})
	}
}

// still is a cache of pods that nobody tells anything but the test.
type still struct {
	*cached
	clock *setClock
}

func newStill(t testing.TB) *still {
	t.Helper()
	client := fake.NewClientset()
	clock := &setClock{now: time.Unix(1e9, 0)}
	config := Config{Namespace: "model", Clock: clock, Logger: logTo(t)}
	c, err := newCached(pods, endpoints(client, "model")[pods], client, config, func(obj object) object { return obj })
	if err != nil {
		t.Fatal(err)
	}
	return &still{c, clock}
}

// told is the informer being told of a change.
func (s *still) told(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	if err := s.informer.GetIndexer().Update(pod); err != nil {
		t.Fatal(err)
	}
}

// gone is the informer being told that it is gone since that version.
func (s *still) gone(t testing.TB, name string, version int) {
	t.Helper()
	if err := s.informer.GetIndexer().Delete(podAt(name, "", version, false)); err != nil {
		t.Fatal(err)
	}
}

// has wants all ways of reading to agree on what there is of that name: a version, or
// "" for nothing.
func (s *still) has(t testing.TB, name, want string) {
	t.Helper()
	got := ""
	if obj := s.get(name); obj != nil {
		got = obj.GetResourceVersion()
	}
	if got != want {
		t.Errorf("get(%s) is of version %q, want %q", name, got, want)
	}
	got = ""
	for _, obj := range s.all() {
		if obj.GetName() == name {
			got += obj.GetResourceVersion()
		}
	}
	if got != want {
		t.Errorf("all has %s of version %q, want %q", name, got, want)
	}
}

func TestReadsSeeOwnWritesAndThenWhatOthersDid(t *testing.T) {
	s := newStill(t)
	s.told(t, podAt("other", "o", 5, false))
	s.wrote(podAt("a", "1", 10, false))
	s.has(t, "a", "10") // created
	s.told(t, podAt("other", "o", 6, false))
	s.has(t, "a", "10")
	s.told(t, podAt("a", "1", 10, false))
	s.has(t, "a", "10")

	s.wrote(podAt("a", "1", 20, false))
	s.has(t, "a", "20") // changed
	s.told(t, podAt("a", "1", 15, false))
	s.has(t, "a", "20") // somebody else's, before ours
	s.told(t, podAt("a", "1", 25, false))
	s.has(t, "a", "25") // somebody else's, after ours

	s.removed(podAt("a", "1", 25, false), false)
	s.has(t, "a", "") // deleted
	s.wrote(podAt("a", "2", 30, false))
	s.has(t, "a", "30") // and made anew
	s.gone(t, "a", 26)
	s.has(t, "a", "30")
	s.told(t, podAt("a", "2", 30, false))
	s.has(t, "a", "30")
	s.gone(t, "a", 31)
	s.has(t, "a", "") // deleted by somebody else
	s.has(t, "other", "6")
}

func TestObjectThatTakesTimeToGoIsThereAndGoing(t *testing.T) {
	s := newStill(t)
	s.told(t, podAt("a", "1", 10, false))
	s.removed(s.get("a"), true)
	s.has(t, "a", "10")
	if obj := s.get("a"); obj.GetDeletionTimestamp() == nil {
		t.Error("it is not going")
	}
	if item, _, _ := s.informer.GetStore().GetByKey("model/a"); item.(object).GetDeletionTimestamp() != nil {
		t.Error("the informer's own object was changed")
	}
	s.told(t, podAt("a", "1", 11, true))
	s.has(t, "a", "11")
	s.gone(t, "a", 12)
	s.has(t, "a", "")
}

func TestObjectThatWentWhileSomebodyLookedIsForgotten(t *testing.T) {
	s := newStill(t)
	s.wrote(podAt("a", "1", 10, false))
	s.forget("a")
	s.has(t, "a", "")
}

// TestInformerThatIsNeverToldIsBelievedInTheEnd holds that a write is not remembered
// for ever: an informer may have been told of another selection.
func TestInformerThatIsNeverToldIsBelievedInTheEnd(t *testing.T) {
	s := newStill(t)
	s.told(t, podAt("a", "1", 5, false))
	s.wrote(podAt("a", "1", 10, false))
	s.clock.advance(ownFor)
	s.has(t, "a", "10")
	s.clock.advance(time.Nanosecond)
	s.has(t, "a", "5")
	s.wrote(podAt("b", "1", 10, false))
	s.clock.advance(ownFor + 1)
	if obj := s.get("b"); obj != nil {
		t.Errorf("there is %v", obj)
	}
}

// TestMemoryOfOwnWritesIsBounded deletes many objects whose names never come again,
// as a model does over the years.
func TestMemoryOfOwnWritesIsBounded(t *testing.T) {
	s := newStill(t)
	for i := range 5000 {
		s.removed(podAt("a"+strconv.Itoa(i), "1", i+1, false), false)
		s.clock.advance(time.Second)
	}
	if n := len(s.own); n > 1000 {
		t.Errorf("%d are remembered", n)
	}
}

func TestTroubleOfAnInformerIsToldOnceAndEnds(t *testing.T) {
	s := newStill(t)
	var log lockedBuffer
	s.logger = logInto(&log)
	denial := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no rights"))
	s.noted(t.Context(), nil)
	if _, _, trouble := s.state(); trouble != nil {
		t.Error(trouble)
	}
	for range 10 {
		s.noted(t.Context(), denial)
		s.clock.advance(time.Minute)
	}
	_, since, trouble := s.state()
	if !errors.Is(trouble, errors.Forbidden) || !strings.Contains(trouble.Error(), "no rights") || !strings.Contains(trouble.Error(), `watching pods in namespace "model"`) {
		t.Errorf("trouble is %v", trouble)
	}
	if !since.Equal(time.Unix(1e9, 0)) {
		t.Errorf("since %v", since)
	}
	if err := s.ready(t.Context(), nil); !errors.Is(err, errors.Forbidden) {
		t.Errorf("ready = %v", err)
	}
	s.noted(t.Context(), nil)
	if _, _, trouble := s.state(); trouble != nil {
		t.Error(trouble)
	}
	if n := strings.Count(log.String(), "cannot watch the cluster"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), "cache.go") {
		t.Errorf("where the code is belongs in no log:\n%s", log.String())
	}
	if n := strings.Count(log.String(), "watching the cluster again"); n != 1 {
		t.Errorf("the end was said %d times:\n%s", n, log.String())
	}
}

func TestEndOfAnInformerIsNoTrouble(t *testing.T) {
	s := newStill(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.noted(ctx, errors.New("cut off"))
	if _, _, trouble := s.state(); trouble != nil {
		t.Error(trouble)
	}
}

func TestFirstListingIsWaitedForAsLongAsTheContextSays(t *testing.T) {
	s := newStill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := s.ready(ctx, nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `first listing of pods in namespace "model"`) {
		t.Errorf("ready = %v", err)
	}
	// With what is known of why.
	s.noted(t.Context(), apierrors.NewServiceUnavailable("out for lunch"))
	if err := s.ready(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "out for lunch") {
		t.Errorf("ready = %v", err)
	}
}

// logInto returns a logger at the lowest level.
func logInto(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
