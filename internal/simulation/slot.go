package simulation

import (
	"fmt"
	"sync"
	"time"
)

// slot is a place where a worker is kept running, as an engine does: when it
// ends, whatever the reason, another one is started.
type slot struct {
	name  string
	stop  chan struct{} // closed when it is to end
	crash bool          // by a crash; set before
	done  chan struct{}

	mu      sync.Mutex
	session *Session // nil while none runs
}

func (sl *slot) current() *Session {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.session
}

func (st *Story) addSlot() {
	sl := &slot{name: string(rune('a' + st.started)), stop: make(chan struct{}), done: make(chan struct{})}
	st.started++
	st.slots = append(st.slots, sl)
	go st.keep(sl)
}

func (st *Story) keep(sl *slot) {
	defer close(sl.done)
	for n := 0; ; n++ {
		s := st.world.Prepare(fmt.Sprint(sl.name, n))
		s.hook = st.storm.hook(s)
		st.world.Start(s)
		sl.set(s)
		select {
		case <-sl.stop:
			if sl.crash {
				s.Crash()
			} else {
				s.Kill()
			}
			return
		case <-s.faults.Severed():
			s.Crash()
		case <-s.ended:
		}
		sl.set(nil)
		select {
		case <-sl.stop:
			return
		case <-st.world.clock.After(throwFor(st.seed, n, sl.name, "restart").between(time.Second/2, 5*time.Second)):
		}
	}
}

func (sl *slot) set(s *Session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.session = s
}

// end ends the first slot.
func (st *Story) end(crash bool) {
	sl := st.slots[0]
	sl.crash = crash
	close(sl.stop)
	<-sl.done
	st.slots = st.slots[1:]
}

func (st *Story) endOverlap() {
	for len(st.slots) > 1 {
		st.world.note("the older worker ends")
		st.end(st.dice.in1000(500))
		st.overlapped = st.world.clock.Now()
	}
}

func (st *Story) endAll() {
	for len(st.slots) > 0 {
		st.end(false)
	}
}
