package batch

import (
	"context"
	"fmt"
	"slices"

	"github.com/juju/errors"
)

// send calls for the items of a batch, in several calls if need be, and settles
// them. A settled item's caller may use it again at once, so its place in the
// batch becomes nil.
func (b *Batcher[In, Out]) send(batch []*item[In, Out]) {
	if err := b.config.Context.Err(); err != nil {
		b.settleAll(batch, err)
		return
	}
	batch = b.withoutLeft(batch)
	if len(batch) == 0 {
		return
	}
	a := b.call(batch)
	if a.err != nil && len(batch) > 1 && b.config.Splits != nil && b.config.Splits(a.err) {
		half := len(batch) / 2
		b.send(batch[:half])
		b.send(batch[half:])
		return
	}
	b.settle(batch, a)
}

// withoutLeft returns the batch without the items whose callers' contexts have
// ended. Their callers left with an error; sent now, they would take effect
// when nobody expects it any more.
func (b *Batcher[In, Out]) withoutLeft(batch []*item[In, Out]) []*item[In, Out] {
	return slices.DeleteFunc(batch, func(it *item[In, Out]) bool {
		err := it.ctx.Err()
		if err != nil {
			b.settleAll([]*item[In, Out]{it}, err)
		}
		return err != nil
	})
}

// answer is what came of one call.
type answer[Out any] struct {
	results []Result[Out]
	err     error
	// timeout is not nil if the call was cut short by its deadline.
	timeout error
}

// call makes one call for a batch.
func (b *Batcher[In, Out]) call(batch []*item[In, Out]) answer[Out] {
	in := make([]In, len(batch))
	for i, it := range batch {
		in[i] = it.in
	}
	ctx, cancel := context.WithCancelCause(b.config.Context)
	defer cancel(nil)
	timer := b.config.Clock.AfterFunc(b.config.Timeout, func() {
		cancel(errors.NewTimeout(nil, fmt.Sprintf("no answer within %v", b.config.Timeout)))
	})
	defer timer.Stop()

	var a answer[Out]
	a.results, a.err = b.config.Call(ctx, in)
	if ctx.Err() != nil && b.config.Context.Err() == nil {
		a.timeout = context.Cause(ctx)
		a.err = a.told(a.err)
	}
	return a
}

// told returns err as callers are told of it. The context.Canceled that a call
// sees at its deadline would make them believe that they had been cancelled.
func (a answer[Out]) told(err error) error {
	if a.timeout != nil && errors.Is(err, context.Canceled) {
		return a.timeout
	}
	return err
}

// of returns the answer for item i of n.
func (a answer[Out]) of(i, n int) (Out, error) {
	var none Out
	switch {
	case a.err != nil:
		return none, notAnAnswer(a.err)
	case i >= len(a.results):
		return none, errors.NewNotValid(nil, fmt.Sprintf("answer %d of %d missing", i+1, n))
	}
	return a.results[i].Value, a.told(a.results[i].Err)
}

// settle gives every item of a batch its part of an answer.
func (b *Batcher[In, Out]) settle(batch []*item[In, Out], a answer[Out]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, it := range batch {
		if it == nil {
			continue // settled before
		}
		it.out, it.err = a.of(i, len(batch))
		if it.state == gathered {
			it.signal <- struct{}{}
		}
		it.state = settled
		batch[i] = nil
	}
}

// settleAll gives every item of a batch that is not settled yet the same error.
func (b *Batcher[In, Out]) settleAll(batch []*item[In, Out], err error) {
	b.settle(batch, answer[Out]{err: err})
}
