package leader_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// Agents come, go, crash and lose their way to the API server at random. At any
// moment one of them leads at most, and when the faults stop one leads soon, who
// holds the Lease. LEADER_SEED repeats the faults of a run; the jitter of
// leaderelection is its own.
func TestNeverTwoLeadAndFinallyOneDoes(t *testing.T) {
	seeds := make([]uint64, 30)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if s := os.Getenv("LEADER_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("LEADER_SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { storm(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

// slots are agents each of which is started again when it has ended.
type slots struct {
	cluster *cluster
	current []atomic.Pointer[agent]
	closing atomic.Bool
	terms   atomic.Int32
	lost    atomic.Int32
}

func (s *slots) keep(t *testing.T, i int) {
	for !s.closing.Load() {
		a := s.cluster.stand(t, fmt.Sprintf("agent-%d", i))
		s.current[i].Store(a)
		select {
		case <-a.Term().Elected():
			s.terms.Add(1)
			for j := range s.current {
				if other := s.current[j].Load(); j != i && other.Term().Leading() {
					t.Errorf("%s leads while %s does", a.name, other.name)
				}
			}
		case <-a.Term().Over():
		}
		if err := a.Wait(); err != nil {
			s.lost.Add(1)
			if !errors.Is(err, leader.ErrLost) {
				t.Errorf("%s ended with %v, want ErrLost", a.name, err)
			}
		}
	}
}

func storm(t *testing.T, dice *rand.Rand) {
	s := slots{cluster: newCluster(), current: make([]atomic.Pointer[agent], 4)}
	var wg sync.WaitGroup
	for i := range s.current {
		s.current[i].Store(s.cluster.stand(t, "none"))
		s.current[i].Load().stop(t)
	}
	for i := range s.current {
		wg.Go(func() { s.keep(t, i) })
	}
	pass(time.Second)
	for range 300 {
		a := s.current[dice.IntN(len(s.current))].Load()
		switch dice.IntN(8) {
		case 0: // a clean end
			a.Kill()
		case 1: // a crash: the Lease stays
			a.client.fail(faults["refused"])
			a.Kill()
		case 2, 3:
			a.client.fail(faults["refused"])
		case 4:
			a.client.fail(faults["hangs"])
		case 5:
			a.client.lose(errors.New("connection reset"))
		default:
			a.client.heal()
		}
		pass(time.Duration(dice.Int64N(int64(4 * time.Second))))
	}
	for i := range s.current {
		s.current[i].Load().client.heal()
	}
	pass(leader.DefaultLeaseDuration + 2*takeover)

	holder, leading := s.cluster.holder(), 0
	for i := range s.current {
		if a := s.current[i].Load(); a.Term().Leading() {
			leading++
			if a.name != holder {
				t.Errorf("%s leads, but %q holds the lease", a.name, holder)
			}
		}
	}
	if leading != 1 {
		t.Errorf("%d agents lead", leading)
	}
	s.closing.Store(true)
	for i := range s.current {
		s.current[i].Load().Kill()
	}
	wg.Wait()
	if s.terms.Load() < 10 || s.lost.Load() == 0 {
		t.Errorf("%d terms, %d lost: no storm", s.terms.Load(), s.lost.Load())
	}
}
