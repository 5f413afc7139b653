package containerprovisioner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
)

// tested is turns for two at once, and who was called.
type tested struct {
	*turns
	called []string
}

func newTested() *tested {
	t := &tested{}
	t.turns = newTurns(clock.WallClock, 2, func(id string) { t.called = append(t.called, id) })
	return t
}

// calls returns who was called since last asked.
func (t *tested) calls() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := strings.Join(t.called, " ")
	t.called = nil
	return out
}

func TestTurnsAreGivenInTheOrderOfAsking(t *testing.T) {
	for _, kind := range []string{"start", "stop"} {
		t.Run(kind, func(t *testing.T) {
			turns := newTested()
			may := turns.mayStart
			if kind == "stop" {
				may = turns.mayStop
			}
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				if got, want := may(id), id < "c"; got != want {
					t.Errorf("%s may: %v, want %v", id, got, want)
				}
				turns.leave(id, id >= "c")
				if id < "c" {
					may(id) // again, and keeps the turn
				}
			}
			if may("c") {
				t.Error("c may out of turn")
			}
			turns.leave("d", false) // wants no more
			turns.leave("b", false)
			if got := turns.calls(); got != "c" {
				t.Errorf("called %q, want c", got)
			}
			if !may("c") || !may("a") {
				t.Error("a turn was lost")
			}
			turns.leave("a", false)
			if got := turns.calls(); got != "e" {
				t.Errorf("called %q, want e", got)
			}
		})
	}
}

func TestWhoeverChangesItsMindLosesItsTurn(t *testing.T) {
	turns := newTested()
	turns.mayStart("a")
	turns.mayStart("b")
	turns.mayStart("c")
	turns.leave("c", true)
	turns.mayStop("a")
	if got := turns.calls(); got != "c" {
		t.Errorf("called %q, want c", got)
	}
	turns.leave("a", false)
	if starting, stopping := turns.counts(); starting != 2 || stopping != 0 {
		t.Errorf("%d start and %d stop, want 2 and none", starting, stopping)
	}
}

func TestStartsWaitForWhatWasNamedBeforeToBeRead(t *testing.T) {
	turns := newTested()
	turns.heard([]string{"a", "b"})
	turns.read("a", false)
	if turns.mayStart("a") {
		t.Error("a may start though b may be dead")
	}
	turns.leave("a", true)
	turns.heard([]string{"c"}) // later: a does not wait for that
	turns.read("b", false)
	if got := turns.calls(); got != "a" {
		t.Errorf("called %q, want a", got)
	}
	if turns.mayStart("b") {
		t.Error("b may start though c may be dead")
	}
	turns.leave("b", true)
	turns.leave("c", false) // its read failed
	if got := turns.calls(); got != "b" {
		t.Errorf("called %q, want b", got)
	}
}

// An event about one that is being started, which is often its own echo, must
// not have the others wait until it is through.
func TestStartsDoNotWaitForOneAnother(t *testing.T) {
	turns := newTested()
	turns.heard([]string{"a"})
	turns.read("a", false)
	turns.heard([]string{"a"}) // between its read and its turn
	if !turns.mayStart("a") {
		t.Fatal("a may not start")
	}
	turns.heard([]string{"a"})
	if !turns.mayStart("b") {
		t.Error("b waits for a")
	}
}

func TestStartsWaitForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTested()
		defer turns.close()
		for _, id := range []string{"x", "y", "z"} {
			turns.read(id, true)
		}
		if turns.mayStart("a") {
			t.Error("a may start beside the dead")
		}
		turns.leave("a", true)
		for _, id := range []string{"x", "y", "z"} {
			turns.mayStop(id)
			time.Sleep(patience - time.Second)
			synctest.Wait()
			if got := turns.calls(); got != "" && got != "z" {
				t.Errorf("called %q before %s was stopped", got, id)
			}
			turns.leave(id, false)
		}
		if got := turns.calls(); got != "a" {
			t.Errorf("called %q, want a", got)
		}
	})
}

func TestStartsDoNotWaitForADeadOneThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTested()
		defer turns.close()
		turns.read("x", true)
		turns.mayStop("x")
		turns.mayStart("a")
		turns.leave("a", true)
		time.Sleep(patience - 1)
		synctest.Wait()
		if got := turns.calls(); got != "" {
			t.Errorf("called %q too early", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := turns.calls(); got != "a" {
			t.Errorf("called %q, want a", got)
		}
	})
}

func TestNobodyIsCalledAfterTheEnd(t *testing.T) {
	turns := newTested()
	turns.mayStart("a")
	turns.mayStart("b")
	turns.mayStart("c")
	turns.leave("c", true)
	turns.close()
	turns.leave("a", false)
	if got := turns.calls(); got != "" {
		t.Errorf("called %q", got)
	}
}

// Whatever happens in whatever order: never more turns than there are, a
// container has one turn at most, and in the end nobody waits for ever.
func TestTurnsOfRandomContainers(t *testing.T) {
	for n := range 200 {
		seed := uint64(n)
		synctest.Test(t, func(t *testing.T) { randomTurns(t, seed) })
	}
}

func randomTurns(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	turns := newTested()
	defer turns.close()
	var ids []string
	for i := range 8 {
		ids = append(ids, fmt.Sprint(i))
	}
	check := func() {
		starting, stopping := turns.counts()
		if starting > 2 || stopping > 2 {
			t.Fatalf("seed %d: %d start and %d stop, want 2 at most", seed, starting, stopping)
		}
		for _, id := range ids {
			_, starts := turns.starts.has[id]
			_, stops := turns.stops.has[id]
			if starts && stops {
				t.Fatalf("seed %d: %s starts and stops", seed, id)
			}
		}
	}
	pass := func(id string) {
		switch rnd.IntN(5) {
		case 0:
			turns.read(id, true)
			turns.leave(id, !turns.mayStop(id))
		case 1:
			turns.leave(id, false) // could not be read
		case 2:
			turns.read(id, false)
			turns.leave(id, false)
		default:
			turns.read(id, false)
			turns.leave(id, !turns.mayStart(id))
		}
	}
	for range 200 {
		if rnd.IntN(4) == 0 {
			turns.heard([]string{ids[rnd.IntN(len(ids))], ids[rnd.IntN(len(ids))]})
		}
		pass(ids[rnd.IntN(len(ids))])
		if rnd.IntN(20) == 0 {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		check()
	}
	// From now on everybody who is called goes to its end, and what was
	// named is read.
	for range 100 {
		for _, id := range ids {
			if _, ok := turns.marks[id]; ok || slices.Contains(turns.called, id) {
				turns.read(id, false)
				turns.leave(id, false)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	}
	if len(turns.starts.waiting) > 0 || len(turns.stops.waiting) > 0 {
		t.Errorf("seed %d: %v and %v wait for ever", seed, turns.starts.waiting, turns.stops.waiting)
	}
}
