package containerprovisioner

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/internal/batch"
)

// burst is for how long an answer of Broker.AllInstances, or the start of an
// instance, is good enough to leave a container alone. Nothing is done about an
// answer that is older than the pass that would do it.
const burst = 5 * time.Second

// listing is an answer of Broker.AllInstances.
type listing struct {
	number    uint64 // counts the calls, from 1
	began     time.Time
	instances []container.Instance // sorted by container
	strange   []container.Instance // of no container of ours, a few of them
}

// of returns the instances made for a container.
func (l *listing) of(id string) []container.InstanceID {
	i, _ := slices.BinarySearchFunc(l.instances, id, func(in container.Instance, id string) int {
		return cmp.Compare(in.ContainerID, id)
	})
	var out []container.InstanceID
	for ; i < len(l.instances) && l.instances[i].ContainerID == id; i++ {
		if !slices.Contains(out, l.instances[i].ID) {
			out = append(out, l.instances[i].ID)
		}
	}
	return out
}

// owned reports whether the instance was made for any of our containers.
func (l *listing) owned(instance container.InstanceID) bool {
	return slices.ContainsFunc(l.instances, func(in container.Instance) bool { return in.ID == instance })
}

// lister asks the broker for all instances, once for everybody who wants to
// know at the same time, and after a failure not again at once, whoever wants
// to know.
type lister struct {
	w     *Worker
	calls *batch.Batcher[struct{}, *listing]

	mu       sync.Mutex
	number   uint64
	latest   *listing // nil before the first
	err      error    // why there is no later one
	attempts int
	delay    time.Duration
	next     time.Time // when it may be asked again
	logged   string    // what was last said of a failure
}

func (w *Worker) newLister(ctx context.Context) (*lister, error) {
	l := &lister{w: w}
	calls, err := batch.New(batch.Config[struct{}, *listing]{
		Call:    l.call,
		Context: ctx,
		Timeout: w.config.CallTimeout,
		Clock:   w.config.Clock,
	})
	l.calls = calls
	return l, errors.Trace(err)
}

// now returns a number such that every listing of a greater one began later.
func (l *lister) now() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.number
}

// recent returns a listing that is no older than a burst.
func (l *lister) recent(ctx context.Context) (*listing, error) {
	l.mu.Lock()
	latest := l.latest
	l.mu.Unlock()
	if latest != nil && l.w.config.Clock.Now().Sub(latest.began) < burst {
		return latest, nil
	}
	return l.after(ctx, l.now())
}

// after returns a listing of a greater number.
func (l *lister) after(ctx context.Context, number uint64) (*listing, error) {
	l.mu.Lock()
	latest, err, next := l.latest, l.err, l.next
	l.mu.Unlock()
	switch {
	case latest != nil && latest.number > number:
		return latest, nil
	case err != nil && l.w.config.Clock.Now().Before(next):
		return nil, err
	}
	// Not by ask: the broker is no facade.
	var answer *listing
	err = l.w.within(ctx, 3*l.w.config.CallTimeout, func(ctx context.Context) (err error) {
		answer, err = l.calls.Do(ctx, struct{}{})
		return err
	})
	return answer, errors.Annotate(err, "listing instances")
}

// call is the batch's: one answer for everybody.
func (l *lister) call(ctx context.Context, in []struct{}) ([]batch.Result[*listing], error) {
	l.mu.Lock()
	l.number++
	answer := &listing{number: l.number, began: l.w.config.Clock.Now()}
	l.mu.Unlock()

	instances, stack, err := l.ask(ctx)
	if l.w.isDying() {
		return nil, context.Canceled
	}
	if err != nil {
		l.failed(ctx, err, stack)
		return nil, err
	}
	for _, i := range instances {
		switch {
		case i.ID != "" && l.w.isOurs(i.ContainerID):
			answer.instances = append(answer.instances, i)
		case len(answer.strange) < maxSkipped:
			answer.strange = append(answer.strange, i)
		}
	}
	slices.SortStableFunc(answer.instances, func(a, b container.Instance) int {
		return cmp.Compare(a.ContainerID, b.ContainerID)
	})
	l.succeeded(ctx, answer)
	results := make([]batch.Result[*listing], len(in))
	for i := range results {
		results[i].Value = answer
	}
	return results, nil
}

// ask keeps a panic of the broker from being that of whoever asked.
func (l *lister) ask(ctx context.Context) (instances []container.Instance, stack string, err error) {
	defer func() {
		if r := recover(); r != nil {
			stack, err = string(debug.Stack()), errors.Errorf("panic: %v", r)
		}
	}()
	instances, err = l.w.config.Broker.AllInstances(ctx)
	return instances, "", err
}

func (l *lister) failed(ctx context.Context, err error, stack string) {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.Errorf("no answer within %s", l.w.config.CallTimeout)
	}
	l.mu.Lock()
	l.delay = l.w.config.Backoff(l.delay, l.attempts)
	l.attempts++
	l.err, l.next = errors.Annotate(err, "listing instances"), l.w.config.Clock.Now().Add(l.delay)
	repeated := l.logged == err.Error()
	l.logged = err.Error()
	l.mu.Unlock()

	attrs := []slog.Attr{slog.String("error", err.Error())}
	level := slog.LevelWarn
	switch {
	case repeated:
		level = slog.LevelDebug
	case stack != "":
		level = slog.LevelError
		attrs = append(attrs, slog.String("stack", stack))
	}
	l.w.config.Logger.LogAttrs(ctx, level, "instances not listed", attrs...)
}

func (l *lister) succeeded(ctx context.Context, answer *listing) {
	l.mu.Lock()
	var before []container.Instance
	if l.latest != nil {
		before = l.latest.strange
	}
	l.latest = answer
	l.err, l.logged, l.attempts, l.delay = nil, "", 0, 0
	l.mu.Unlock()
	for _, i := range answer.strange {
		known := slices.ContainsFunc(before, func(b container.Instance) bool {
			return b.ID == i.ID && b.ContainerID == i.ContainerID
		})
		if !known {
			l.w.config.Logger.WarnContext(ctx, "leaving alone an instance of no container of this type on this machine",
				"instance", shortened(string(i.ID)), "container", shortened(i.ContainerID))
		}
	}
}

// status is what the report tells: the last listing, nil if there is none, and
// why there is no later one, and until when.
func (l *lister) status() (latest *listing, next time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest, l.next, l.err
}
