package simulation

import (
	"sync"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/facade"
)

// slowWatcher passes on what another watcher tells, a little later: the news
// has a way to go. Without that, the baselines of all watchers would come at
// one instant and be heard in no certain order. Its way begins when somebody
// listens.
type slowWatcher struct {
	inner   facade.StringsWatcher
	clock   clock.Clock
	latency func(n int) time.Duration // of event n, counted from 0

	changes chan []string
	heard   sync.Once
	listens chan struct{} // closed when somebody does
	kill    sync.Once
	killed  chan struct{}
	done    chan struct{}
	err     error
}

func newSlowWatcher(inner facade.StringsWatcher, clk clock.Clock, latency func(int) time.Duration) *slowWatcher {
	w := &slowWatcher{
		inner: inner, clock: clk, latency: latency,
		changes: make(chan []string), listens: make(chan struct{}), killed: make(chan struct{}), done: make(chan struct{}),
	}
	go w.loop()
	return w
}

// Changes is part of facade.Watcher.
func (w *slowWatcher) Changes() <-chan []string {
	w.heard.Do(func() { close(w.listens) })
	return w.changes
}

// Kill is part of worker.Worker.
func (w *slowWatcher) Kill() { w.kill.Do(func() { close(w.killed) }) }

// Wait is part of worker.Worker.
func (w *slowWatcher) Wait() error {
	<-w.done
	return w.err
}

func (w *slowWatcher) loop() {
	defer close(w.done)
	ended := make(chan error, 1)
	go func() { ended <- w.inner.Wait() }()
	var changes <-chan []string
	listens := w.listens
	for n := 0; ; {
		select {
		case <-listens:
			changes, listens = w.inner.Changes(), nil
		case <-w.killed:
			w.inner.Kill()
			w.err = <-ended
			return
		case w.err = <-ended:
			return
		case names, ok := <-changes:
			if !ok {
				close(w.changes)
				changes = nil
				continue
			}
			w.deliver(names, w.latency(n))
			n++
		}
	}
}

// deliver passes names on, unless it is killed before.
func (w *slowWatcher) deliver(names []string, after time.Duration) {
	timer := w.clock.NewTimer(after)
	defer timer.Stop()
	select {
	case <-w.killed:
		return
	case <-timer.Chan():
	}
	select {
	case <-w.killed:
	case w.changes <- names:
	}
}
