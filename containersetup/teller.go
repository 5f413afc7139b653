package containersetup

import (
	"context"
	stderrors "errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// maxTold is how many statuses are sent in one call.
const maxTold = 500

// teller tells the controller the statuses of containers that wait, for one type:
// each change once, the newest only, and again until it arrives. It keeps what is
// slow or failing about that away from the preparation itself.
type teller struct {
	w    *Worker
	wake chan struct{}

	mu     sync.Mutex
	wanted map[string]facade.ContainerStatus // to be told
	told   map[string]facade.ContainerStatus // what the controller was told
	// doubted are containers whose status may have been set by others since.
	doubted map[string]bool
	idle    chan struct{} // closed when nothing is to be told or under way
}

func newTeller(w *Worker) *teller {
	idle := make(chan struct{})
	close(idle)
	return &teller{
		w:       w,
		wake:    make(chan struct{}, 1),
		wanted:  map[string]facade.ContainerStatus{},
		told:    map[string]facade.ContainerStatus{},
		doubted: map[string]bool{},
		idle:    idle,
	}
}

// tell has the containers' status told, where it is another one than was told.
func (t *teller) tell(state facade.ContainerState, message string, ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		status := facade.ContainerStatus{ID: id, State: state, Message: message}
		if t.told[id] == status {
			delete(t.wanted, id)
			continue
		}
		t.wanted[id] = status
	}
	t.signal()
}

// heard compares a container's status, as it was read, with what was told: whoever
// asks again for a container sets it, and has to be told again.
func (t *teller) heard(id string, state facade.ContainerState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if told, ok := t.told[id]; ok && told.State != state {
		delete(t.told, id)
	}
}

// doubt has the containers' status read, and told again where others have set
// it since.
func (t *teller) doubt(ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.doubted[id] = true
	}
	t.signal()
}

// clear has what was told of the containers taken back, and returns when that
// is done, or cannot be done soon; then nothing more is told of them. Whoever
// looks after them from now on has the word.
func (t *teller) clear(ctx context.Context, ids []string) {
	// A status that cannot be told holds nobody up for longer than a call.
	_ = t.w.within(ctx, t.w.config.CallTimeout, func(ctx context.Context) error {
		t.mu.Lock()
		for _, id := range ids {
			delete(t.wanted, id)
		}
		t.mu.Unlock()
		// One that is under way arrives first.
		t.quiet(ctx)
		t.mu.Lock()
		for _, id := range ids {
			if t.told[id].Message != "" {
				t.wanted[id] = facade.ContainerStatus{ID: id, State: facade.ContainerPending}
			}
		}
		t.signal()
		t.mu.Unlock()
		t.quiet(ctx)
		return nil
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		delete(t.wanted, id)
		delete(t.told, id)
	}
}

// quiet returns when nothing is to be told or under way, or when ctx ends.
func (t *teller) quiet(ctx context.Context) {
	t.mu.Lock()
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// signal is called with the lock held.
func (t *teller) signal() {
	if len(t.wanted) == 0 && len(t.doubted) == 0 {
		return
	}
	select {
	case <-t.idle:
		t.idle = make(chan struct{})
	default:
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run tells until ctx ends.
func (t *teller) run(ctx context.Context) {
	var delay time.Duration
	for attempt := 0; ; {
		err := t.review(ctx)
		batch := t.next()
		if len(batch) == 0 && err == nil {
			if !t.w.wait(ctx, -1, t.wake) {
				return
			}
			continue
		}
		if len(batch) > 0 {
			err = stderrors.Join(err, t.send(ctx, batch))
		}
		if err == nil {
			attempt, delay = 0, 0
			continue
		}
		// Retried with back-off, together with what is new by then.
		delay = t.w.config.Backoff(delay, attempt)
		attempt++
		if !t.w.wait(ctx, delay, nil) {
			return
		}
	}
}

// next takes what is to be told next.
func (t *teller) next() []facade.ContainerStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Sorted(maps.Keys(t.wanted))
	batch := make([]facade.ContainerStatus, 0, min(len(ids), maxTold))
	for _, id := range ids[:min(len(ids), maxTold)] {
		batch = append(batch, t.wanted[id])
	}
	if len(batch) == 0 && len(t.doubted) == 0 {
		select {
		case <-t.idle:
		default:
			close(t.idle)
		}
	}
	return batch
}

// review reads the status of containers that are doubted.
func (t *teller) review(ctx context.Context) error {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.doubted))
	ids = ids[:min(len(ids), maxTold)]
	for _, id := range ids {
		// Who doubts it from now on wants a later look.
		delete(t.doubted, id)
	}
	t.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	results, err := t.read(ctx, ids)

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		r, ok := results[id]
		switch {
		case errors.Is(r.Err, errors.NotFound):
		case !ok, r.Err != nil:
			t.doubted[id] = true
			if err == nil && r.Err == nil {
				err = errors.NotValidf("answer without container %q", id)
			} else if err == nil {
				err = r.Err
			}
		default:
			if told, ok := t.told[id]; ok && told.State != r.Status {
				delete(t.told, id)
				t.wanted[id] = told
			}
		}
	}
	return err
}

// read returns what the controller says of containers, by id.
func (t *teller) read(ctx context.Context, ids []string) (byID map[string]facade.ContainerResult, err error) {
	defer t.recovered(&err)
	byID = make(map[string]facade.ContainerResult, len(ids))
	err = t.w.ask(ctx, func(ctx context.Context) error {
		results, err := t.w.config.Facade.Containers(ctx, ids)
		if err != nil {
			return err
		}
		for _, r := range results {
			byID[r.ID] = r
		}
		return nil
	})
	return byID, err
}

// recovered turns a panic of the facade's into an error.
func (t *teller) recovered(err *error) {
	if r := recover(); r != nil {
		*err = errors.Errorf("panic: %v", r)
		t.w.config.Logger.Error("setting statuses panicked", "error", (*err).Error())
	}
}

// send tells a batch. One bad item among many costs itself alone.
func (t *teller) send(ctx context.Context, batch []facade.ContainerStatus) (err error) {
	defer t.recovered(&err)
	var results []error
	err = t.w.ask(ctx, func(ctx context.Context) (err error) {
		results, err = t.w.config.Facade.SetContainerStatus(ctx, batch)
		return err
	})
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, status := range batch {
		switch {
		case i >= len(results):
			err = errors.NotValidf("answer %d of %d missing", i+1, len(batch))
			continue
		case results[i] != nil && !errors.Is(results[i], errors.NotFound):
			err = results[i]
			continue
		}
		// Told, or there is nobody left to tell of.
		t.told[status.ID] = status
		if t.wanted[status.ID] == status {
			delete(t.wanted, status.ID)
		}
	}
	return err
}
