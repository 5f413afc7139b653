package leader

import "sync"

// Term is the time during which the agent of a [Worker] leads. There is one in
// the life of a worker, or none.
type Term struct {
	elected, over chan struct{}

	mu      sync.Mutex // guards what follows, and the closing of channels
	tenants int        // wrapped workers that run
	vacated chan struct{}
}

func newTerm() *Term {
	return &Term{
		elected: make(chan struct{}),
		over:    make(chan struct{}),
		vacated: make(chan struct{}),
	}
}

// Elected returns a channel that is closed when the agent begins to lead. It
// stays open for ever if that does not come before Over.
func (t *Term) Elected() <-chan struct{} { return t.elected }

// Over returns a channel that is closed when the agent leads no longer, or will
// not lead any more: at the latest when its worker has ended.
func (t *Term) Over() <-chan struct{} { return t.over }

// Leading says whether the agent leads now.
func (t *Term) Leading() bool { return closed(t.elected) && !closed(t.over) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// begin is true the first time, unless the term is over already.
func (t *Term) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if closed(t.elected) || closed(t.over) {
		return false
	}
	close(t.elected)
	return true
}

// end ends the term, once.
func (t *Term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if closed(t.over) {
		return
	}
	close(t.over)
	if t.tenants == 0 {
		close(t.vacated)
	}
}

// enter lets a worker into the term. It is false when there is none to enter;
// else leave has to follow when that worker has stopped.
func (t *Term) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.Leading() {
		return false
	}
	t.tenants++
	return true
}

func (t *Term) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tenants--
	if t.tenants == 0 && closed(t.over) {
		close(t.vacated)
	}
}

// inside is the number of workers that entered and have not left.
func (t *Term) inside() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tenants
}
