package worlds

import "sync"

// feed is a facade.StringsWatcher. What is sent while the last event is unread
// is merged with it, each name once, as controllers do.
type feed struct {
	changes chan []string
	dead    chan struct{}
	end     sync.Once

	mu     sync.Mutex
	unread map[string]bool // of the event in changes, if it is still there
}

func newFeed(baseline []string) *feed {
	f := &feed{changes: make(chan []string, 1), dead: make(chan struct{}), unread: make(map[string]bool)}
	f.send(baseline...)
	return f
}

// Changes is part of facade.Watcher.
func (f *feed) Changes() <-chan []string { return f.changes }

// Kill is part of worker.Worker.
func (f *feed) Kill() { f.end.Do(func() { close(f.dead) }) }

// Wait is part of worker.Worker.
func (f *feed) Wait() error {
	<-f.dead
	return nil
}

func (f *feed) ended() bool {
	select {
	case <-f.dead:
		return true
	default:
		return false
	}
}

func (f *feed) send(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var event []string
	select {
	case event = <-f.changes:
	default:
		clear(f.unread)
	}
	for _, name := range names {
		if !f.unread[name] {
			f.unread[name] = true
			event = append(event, name)
		}
	}
	f.changes <- event
}
