package containerprovisioner

import (
	"context"
	stderrors "errors"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/batch"
	"github.com/sutler-dev/sutler/internal/deadline"
)

// within makes a call with a deadline on the worker's clock.
func (w *Worker) within(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	return deadline.Call(ctx, w.config.Clock, limit, call)
}

// ask is within for a call of the facade, whose connection may be lost.
func (w *Worker) ask(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	return w.noteFatal(w.within(ctx, limit, call))
}

func (w *Worker) noteFatal(err error) error {
	if err != nil && !w.isDying() && w.config.IsFatal(err) {
		w.catacomb.Kill(errors.Annotate(err, "talking to the controller"))
	}
	return err
}

// join sends what is asked about one container together with whatever else is
// asked. Batches have deadlines of their own; the one here is for waiting for
// the batch under way before that.
func join[In, Out any](ctx context.Context, w *Worker, b *batches[In, Out], in In) (out Out, err error) {
	err = w.ask(ctx, 3*w.config.CallTimeout, func(ctx context.Context) (err error) {
		out, err = b.do(ctx, in)
		return err
	})
	return out, err
}

// batchers join the calls that the facade takes for many containers at once.
type batchers struct {
	containers *batches[string, facade.ContainerResult]
	infos      *batches[string, facade.ContainerProvisioningInfo]
	statuses   *batches[facade.ContainerStatus, struct{}]
	records    *batches[facade.InstanceInfo, struct{}]
	removals   *batches[string, struct{}]
}

func (w *Worker) makeBatchers(ctx context.Context) error {
	f := w.config.Facade
	var errs []error
	w.batchers = batchers{
		containers: newBatcher(ctx, w, &errs, "Containers", func(ctx context.Context, ids []string) ([]batch.Result[facade.ContainerResult], error) {
			answers, err := f.Containers(ctx, ids)
			return match(ids, answers, func(a facade.ContainerResult) (string, facade.ContainerResult, error) {
				return a.ID, a, a.Err
			}), err
		}),
		infos: newBatcher(ctx, w, &errs, "ProvisioningInfo", func(ctx context.Context, ids []string) ([]batch.Result[facade.ContainerProvisioningInfo], error) {
			answers, err := f.ProvisioningInfo(ctx, ids)
			return match(ids, answers, func(a facade.ContainerProvisioningResult) (string, facade.ContainerProvisioningInfo, error) {
				return a.ID, a.Info, a.Err
			}), err
		}),
		statuses: newBatcher(ctx, w, &errs, "SetContainerStatus", inOrder(w, "SetContainerStatus", f.SetContainerStatus)),
		records:  newBatcher(ctx, w, &errs, "SetInstanceInfo", inOrder(w, "SetInstanceInfo", f.SetInstanceInfo)),
		removals: newBatcher(ctx, w, &errs, "MarkForRemoval", inOrder(w, "MarkForRemoval", f.MarkForRemoval)),
	}
	return errors.Trace(stderrors.Join(errs...))
}

func newBatcher[In, Out any](
	ctx context.Context, w *Worker, errs *[]error, name string, call func(context.Context, []In) ([]batch.Result[Out], error),
) *batches[In, Out] {
	b := &batches[In, Out]{}
	for range min(w.config.Concurrency, maxParallel) {
		one, err := newBatch(ctx, w, measured(w, name, call))
		*errs = append(*errs, err)
		b.list = append(b.list, one)
	}
	b.busy = make([]int, len(b.list))
	return b
}

func newBatch[In, Out any](
	ctx context.Context, w *Worker, call func(context.Context, []In) ([]batch.Result[Out], error),
) (*batch.Batcher[In, Out], error) {
	return batch.New(batch.Config[In, Out]{
		Call:    call,
		Context: ctx,
		Timeout: w.config.CallTimeout,
		Clock:   w.config.Clock,
		Splits:  batch.AboutAnItem,
	})
}

// maxParallel bounds how many calls of one method there are at once.
const maxParallel = 16

// batches are several batchers for one method: with a single one, containers
// that are being started at once would mostly wait for one another.
type batches[In, Out any] struct {
	list []*batch.Batcher[In, Out]

	mu   sync.Mutex
	busy []int // how many wait for each
}

// do sends in by the batcher that has the least to do.
func (b *batches[In, Out]) do(ctx context.Context, in In) (Out, error) {
	b.mu.Lock()
	least := 0
	for i, n := range b.busy {
		if n < b.busy[least] {
			least = i
		}
	}
	b.busy[least]++
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy[least]--
	}()
	return b.list[least].Do(ctx, in)
}

// match puts answers that name their container in the order of the questions. A
// container that no answer names has an error of its own.
func match[A, Out any](ids []string, answers []A, read func(A) (string, Out, error)) []batch.Result[Out] {
	byID := make(map[string]batch.Result[Out], len(answers))
	for _, answer := range answers {
		id, out, err := read(answer)
		byID[id] = batch.Result[Out]{Value: out, Err: err}
	}
	results := make([]batch.Result[Out], len(ids))
	for i, id := range ids {
		result, ok := byID[id]
		if !ok {
			result.Err = errors.NotValidf("answer without container %q", id)
		}
		results[i] = result
	}
	return results
}

// inOrder is a batch's call for answers that are errors in the order of the
// questions.
func inOrder[In any](
	w *Worker, method string, call func(context.Context, []In) ([]error, error),
) func(context.Context, []In) ([]batch.Result[struct{}], error) {
	return func(ctx context.Context, in []In) ([]batch.Result[struct{}], error) {
		answers, err := call(ctx, in)
		if len(answers) > len(in) {
			w.config.Logger.WarnContext(ctx, "too many answers", "call", method, "asked", len(in), "answered", len(answers))
		}
		results := make([]batch.Result[struct{}], len(answers))
		for i, err := range answers {
			results[i].Err = err
		}
		return results, err
	}
}

// stopInstances stops instances, all within one deadline.
func (w *Worker) stopInstances(ctx context.Context, ids []container.InstanceID) error {
	return w.within(ctx, w.config.StopTimeout, func(ctx context.Context) error {
		answers := w.config.Broker.StopInstances(ctx, ids...)
		if len(answers) < len(ids) {
			return errors.NotValidf("%d answers about %d instances", len(answers), len(ids))
		}
		return stderrors.Join(answers[:len(ids)]...)
	})
}
