package batch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// DefaultMax is the default of Config.Max.
const DefaultMax = 256

// Config is what a [Batcher] works with. Max and Splits are optional.
type Config[In, Out any] struct {
	// Call sends one batch, and returns one result per input in the order
	// of the inputs, plus an error for the call as a whole; with such an
	// error the results are ignored. It must honour its context. The inputs
	// are its own, the results pass to the Batcher.
	Call func(ctx context.Context, in []In) ([]Result[Out], error)
	// Context is the owner's. When it is cancelled, the call under way is,
	// and every Do returns.
	Context context.Context
	// Timeout is the deadline of each call. A Do that has to gather may
	// take twice as long (the call that is under way, and its own), and
	// longer when more than Max have gathered before it.
	Timeout time.Duration
	// Clock measures Timeout.
	Clock clock.Clock
	// Max is how many items a batch has at most, so that messages stay
	// bounded; 256 by default.
	Max int
	// Splits tells which errors of a whole call may be the fault of one of
	// its items. The batch is then halved, and each half sent again, until
	// the culprit is alone: for one among n that takes some 2*log2(n) calls
	// more, one after the other, each with a deadline of its own. nil never
	// splits.
	Splits func(error) bool
}

// Result is the answer for one item.
type Result[Out any] struct {
	// Value is the answer, when Err is nil.
	Value Out
	// Err is why there is none for this item.
	Err error
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config[In, Out]) Validate() error {
	switch {
	case c.Call == nil:
		return errors.NotValidf("nil Call")
	case c.Context == nil:
		return errors.NotValidf("nil Context")
	case c.Timeout <= 0:
		return errors.NotValidf("Timeout %v (want more than 0)", c.Timeout)
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Max < 0:
		return errors.NotValidf("negative Max")
	}
	return nil
}

// Batcher gathers; see the package's documentation. Make one with [New].
type Batcher[In, Out any] struct {
	config Config[In, Out]
	items  sync.Pool // of *item[In, Out] that nobody else refers to

	mu       sync.Mutex
	led      bool // somebody is the leader, or appointed
	gathered []*item[In, Out]

	batch []*item[In, Out] // the leader's; kept to be used again
}

// New returns a Batcher, or an errors.NotValid for an impossible config.
func New[In, Out any](config Config[In, Out]) (*Batcher[In, Out], error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Max == 0 {
		config.Max = DefaultMax
	}
	return &Batcher[In, Out]{config: config}, nil
}

// item is one Do.
type item[In, Out any] struct {
	ctx context.Context
	in  In
	out Out
	err error
	// signal has room for the one message that a gathered item gets, when
	// its state becomes leading or settled.
	signal chan struct{}
	state  state // guarded by Batcher.mu
}

type state uint8

const (
	gathered state = iota // its caller waits for either of the next two
	leading               // its caller calls, and waits for nothing
	settled               // out and err are there
)

// Do sends in with the next batch and returns the answer for it. Its error is
// that of the item, that of the whole call (see the package's documentation),
// or that of ctx or Config.Context when one of them ends first. An answer that
// is there is preferred to the end of a context.
func (b *Batcher[In, Out]) Do(ctx context.Context, in In) (Out, error) {
	if err := b.ended(ctx); err != nil {
		var none Out
		return none, err
	}
	it := b.newItem(ctx, in)
	b.mu.Lock()
	lead := !b.led
	if lead {
		b.led = true
		it.state = leading
	} else {
		b.gathered = append(b.gathered, it)
	}
	b.mu.Unlock()

	if !lead {
		var err error
		if lead, err = b.await(it); err != nil {
			// The item may still be in a list: it is not used again.
			var none Out
			return none, err
		}
	}
	if lead {
		b.lead(it)
	}
	out, err := it.out, it.err
	b.recycle(it)
	return out, err
}

// ended returns the error of a caller's context or of the owner's, if one of
// them has ended.
func (b *Batcher[In, Out]) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.config.Context.Err()
}

// await blocks until a gathered item is settled, or its caller has to lead, or
// leaves with an error.
func (b *Batcher[In, Out]) await(it *item[In, Out]) (lead bool, err error) {
	signalled := false
	select {
	case <-it.signal:
		signalled = true
	case <-it.ctx.Done():
	case <-b.config.Context.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if it.state == settled {
		if !signalled {
			<-it.signal
		}
		return false, nil
	}
	if err := b.ended(it.ctx); err != nil {
		if it.state == leading {
			b.appoint()
		}
		return false, err
	}
	return true, nil
}

// appoint makes the first of the gathered ones, whose caller is still there,
// the leader. It is called with the lock held.
func (b *Batcher[In, Out]) appoint() {
	b.led = false
	n := 0
	for ; n < len(b.gathered) && !b.led; n++ {
		if it := b.gathered[n]; it.ctx.Err() == nil {
			b.led = true
			it.state = leading
			it.signal <- struct{}{}
		}
	}
	b.gathered = slices.Delete(b.gathered, 0, n)
}

// lead calls for the item and those that have gathered, and appoints the next
// leader. This is also done on the way out of a panic, or of a runtime.Goexit
// in Call, as t.FailNow is.
func (b *Batcher[In, Out]) lead(own *item[In, Out]) {
	b.mu.Lock()
	batch := append(b.batch[:0], own)
	n := 0
	for ; n < len(b.gathered) && len(batch) < b.config.Max; n++ {
		batch = append(batch, b.gathered[n])
	}
	b.gathered = slices.Delete(b.gathered, 0, n)
	b.mu.Unlock()

	returned := false
	defer func() {
		var panicked any
		if !returned {
			// The value of a panic may hold anything: only the
			// leader's owner gets to see it.
			err := errors.New("panic in the call for a batch")
			if panicked = recover(); panicked == nil {
				err = errors.New("call for a batch ended its goroutine")
			}
			b.settleAll(batch, err)
		}
		b.mu.Lock()
		b.batch = batch
		b.appoint()
		b.mu.Unlock()
		if panicked != nil {
			// Panicking on from here keeps the first panic's frames on
			// the stack.
			panic(panicked)
		}
	}()
	b.send(batch)
	returned = true
}

// newItem returns an item in the state gathered.
func (b *Batcher[In, Out]) newItem(ctx context.Context, in In) *item[In, Out] {
	it, _ := b.items.Get().(*item[In, Out])
	if it == nil {
		it = &item[In, Out]{signal: make(chan struct{}, 1)}
	}
	it.ctx, it.in = ctx, in
	return it
}

// recycle keeps an item for a later Do, without what it carried.
func (b *Batcher[In, Out]) recycle(it *item[In, Out]) {
	*it = item[In, Out]{signal: it.signal}
	b.items.Put(it)
}
