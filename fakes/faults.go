package fakes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Always, as [Rule.Times], makes a rule hold for every call from then on.
const Always = -1

// Rule says which calls an [Effect] befalls.
type Rule struct {
	// Method is the method's name, such as "EnsureOperator"; empty matches
	// every method.
	Method string
	// Key is the application, or what stands in its place for [Machine] and
	// [Host]; empty matches every one. See [Faults] for methods that take
	// several.
	Key string
	// Skip is how many matching calls are spared first.
	Skip int
	// Times is how many calls are then befallen: [Always] for all, and
	// zero, the default, is the same as one.
	Times int

	Effect
}

// Call is one call of a method of a fake.
type Call struct {
	// Seq counts the calls of one [Faults], from 1.
	Seq int
	// N counts the calls of the same method and key, from 1.
	N int
	// Method is the method's name.
	Method string
	// Key is the application, or what stands in its place, empty where there
	// is none or where there are several.
	Key string
	// Keys are the applications of a method that takes several.
	Keys []string
	// Item is set when a hook is asked about one application of such a
	// method rather than about the whole call.
	Item bool
	// Args are copies of the arguments after the context and the
	// application. Secrets among them stay of the type facade.Secret.
	Args []any
	// Start and End are when it began and returned; End is zero while it
	// is under way.
	Start, End time.Time
	// Acted tells that the fake did its work, or a part of it, whatever
	// the call returned.
	Acted bool
	// Err is what it returned.
	Err error
}

// String shows the call without its arguments.
func (c Call) String() string {
	s := fmt.Sprintf("%d %s(%s)", c.Seq, c.Method, c.Key)
	if c.Keys != nil {
		s = fmt.Sprintf("%d %s(%q)", c.Seq, c.Method, c.Keys)
	}
	switch {
	case c.End.IsZero():
		s += " under way"
	case c.Err != nil:
		s += ": " + c.Err.Error()
	}
	return s
}

// Faults is what every call of a fake goes through: it records the call and
// decides what befalls it. A [Controller] and a [Manager] that share one are
// one connection, as one worker has it: their calls are numbered together and
// are cut off together.
//
// What befalls a call is told by the first rule that matches it and is not
// used up; when there is none, by the hook.
//
// A method that takes several applications (SetPasswords, ApplicationsInfo) is
// asked about once as a whole, which only rules without a key match, and then
// once for each application, which only rules with a key match. The effect on
// an application is its own when it is an Err, an Act or an Answer; everything
// else in it befalls the whole call.
//
// A Faults is safe for use by many goroutines.
type Faults struct {
	clock clock.Clock

	// acting is held while a fake acts, so that nothing takes effect once
	// Cut has returned. It is taken before mu and before a fake's own lock.
	acting sync.Mutex
	// severed is closed when the connection is cut.
	severed chan struct{}

	mu       sync.Mutex
	latency  time.Duration
	rules    []*Rule
	hook     func(Call) Effect
	calls    []*Call
	counts   map[countKey]int
	seq      int
	cutAt    int
	cutAfter bool
	inFlight map[string]int
	peak     map[string]int
}

type countKey struct{ method, key string }

// NewFaults returns a Faults without rules, on which time passes by clk.
func NewFaults(clk clock.Clock) *Faults {
	return &Faults{
		clock:    clk,
		severed:  make(chan struct{}),
		counts:   make(map[countKey]int),
		inFlight: make(map[string]int),
		peak:     make(map[string]int),
	}
}

// Add appends rules. Earlier ones go first.
func (f *Faults) Add(rules ...Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rules {
		if r.Times == 0 {
			r.Times = 1
		}
		f.rules = append(f.rules, &r)
	}
}

// Fail makes the next call of the method for the key return err and do
// nothing. Empty strings match as in a [Rule].
func (f *Faults) Fail(method, key string, err error) {
	f.Add(Rule{Method: method, Key: key, Effect: Effect{Err: err}})
}

// OnCall makes hook decide about every call that no rule matches; nil takes
// the hook away. It is called without a lock and may be called from many
// goroutines at once; an answer that depends only on the call's method, key
// and N is the same in every run.
func (f *Faults) OnCall(hook func(Call) Effect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// SetLatency makes every call take at least d, before it acts and on top of
// what a rule says.
func (f *Faults) SetLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

// Clear takes away all rules, the hook and the latency. What was recorded
// stays.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.hook, f.latency = nil, nil, 0
}

// Reset forgets the calls that were recorded, and numbering starts again.
// Rules stay, with what is left of them.
func (f *Faults) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.seq = nil, 0
	clear(f.counts)
	clear(f.peak)
}

// Calls returns copies of the calls so far, in the order in which they began.
func (f *Faults) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Call, len(f.calls))
	for i, c := range f.calls {
		out[i] = *c
	}
	return out
}

// Count returns how often the method was called for the key. A method that
// takes several applications counts for each of them, and for the empty key
// once for each call.
func (f *Faults) Count(method, key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[countKey{method, key}]
}

// Peak returns the greatest number of calls that were under way at once for
// the key, or of all calls for the empty key. A call for several applications
// counts only for the empty key.
func (f *Faults) Peak(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peak[key]
}

// Cut ends the connection, as a crash of the worker that uses it would: no
// call has an effect any more, and none returns before its context ends,
// whatever it says about being deaf. It returns when that is so, also for the
// calls that are under way; they may have acted before. Cutting twice is
// harmless. Whoever plays the crashed worker's next incarnation gives it a
// Faults of its own: see [Controller.Session] and [Manager.Session].
func (f *Faults) Cut() {
	f.acting.Lock()
	defer f.acting.Unlock()
	f.sever()
}

// CutAt cuts the connection at the call with that Seq: before it acts, or
// right after it has acted and before it returns.
func (f *Faults) CutAt(seq int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cutAt, f.cutAfter = seq, after
}

// Severed returns a channel that is closed when the connection has been cut.
func (f *Faults) Severed() <-chan struct{} { return f.severed }

// sever is called with acting held.
func (f *Faults) sever() {
	if !f.isCut() {
		close(f.severed)
	}
}

func (f *Faults) isCut() bool {
	select {
	case <-f.severed:
		return true
	default:
		return false
	}
}

// plan is what befalls one call: the whole of it and each of its items.
type plan struct {
	whole Effect
	items []Effect
}

func (p plan) all() []Effect { return append([]Effect{p.whole}, p.items...) }

// half tells that the call is to do half of its work.
func (p plan) half() bool { return p.whole.fails() && p.whole.Act == Half }

// begin numbers and records the call and finds out what befalls it.
func (f *Faults) begin(c Call) (*Call, plan) {
	f.mu.Lock()
	f.seq++
	c.Seq, c.Start = f.seq, f.clock.Now()
	c.N = f.count(c.Method, c.Key)
	rec := &c
	f.calls = append(f.calls, rec)
	for _, key := range flightKeys(rec) {
		f.inFlight[key]++
		f.peak[key] = max(f.peak[key], f.inFlight[key])
	}

	var p plan
	var unmatched []*Effect
	var asked []Call
	ask := func(q Call, e *Effect, matches func(*Rule) bool) {
		if r := f.match(matches); r != nil {
			*e = r.Effect
		} else if f.hook != nil {
			unmatched, asked = append(unmatched, e), append(asked, q)
		}
	}
	p.items = make([]Effect, len(c.Keys))
	ask(c, &p.whole, func(r *Rule) bool {
		return (r.Method == "" || r.Method == c.Method) && (r.Key == "" || c.Keys == nil && r.Key == c.Key)
	})
	for i, key := range c.Keys {
		q := c
		q.Key, q.Keys, q.Item, q.N = key, nil, true, f.count(c.Method, key)
		ask(q, &p.items[i], func(r *Rule) bool {
			return (r.Method == "" || r.Method == c.Method) && r.Key == key
		})
	}
	p.whole.Delay += f.latency
	hook, cut := f.hook, f.cutAt == c.Seq && !f.cutAfter
	f.mu.Unlock()

	if cut {
		f.Cut()
	}
	for i, e := range unmatched {
		delay := e.Delay
		*e = hook(asked[i])
		e.Delay += delay
	}
	return rec, p
}

func (f *Faults) count(method, key string) int {
	k := countKey{method, key}
	f.counts[k]++
	return f.counts[k]
}

// match returns the first rule that matches and is neither skipping nor used
// up, and uses it once.
func (f *Faults) match(matches func(*Rule) bool) *Rule {
	for _, r := range f.rules {
		if r.Times == 0 || !matches(r) {
			continue
		}
		if r.Skip > 0 {
			r.Skip--
			continue
		}
		if r.Times != Always {
			r.Times--
		}
		return r
	}
	return nil
}

// flightKeys are the keys under which a call that is under way is counted.
func flightKeys(c *Call) []string {
	if c.Key == "" {
		return []string{""}
	}
	return []string{"", c.Key}
}

func (f *Faults) end(rec *Call, acted bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rec.End, rec.Acted, rec.Err = f.clock.Now(), acted, err
	for _, key := range flightKeys(rec) {
		f.inFlight[key]--
	}
}

// errPanicked is what is recorded of a call that panics.
const errPanicked = errors.ConstError("panicked")

// run takes a call through the faults; act is what the fake does by itself.
// act is called with no lock of the fake held, and not at all when the call is
// to fail before it acts.
func run[T any](ctx context.Context, f *Faults, c Call, act func(plan) (T, error)) (answer T, err error) {
	return runSteps(ctx, f, c, 0, act)
}

// runSteps is run for what is done in steps, with a pause before each but the
// first. A call whose context ends in a pause has done the steps before it, and
// so has one that is to do half of its work, or that is cut off after it has
// acted: these do the first step alone. What the last step returns is the
// answer; one that fails is the last.
func runSteps[T any](ctx context.Context, f *Faults, c Call, pause time.Duration, steps ...func(plan) (T, error)) (answer T, err error) {
	var zero T
	rec, p := f.begin(c)
	acted, finished := false, false
	defer func() {
		if !finished {
			err = errPanicked
		}
		f.end(rec, acted, err)
	}()
	give := func(v T, err error) (T, error) {
		finished = true
		return v, err
	}

	for _, e := range p.all() {
		if err := f.pass(ctx, e, e.Delay, e.Gate); err != nil {
			return give(zero, err)
		}
		if e.Before != nil {
			e.Before()
		}
	}
	if p.half() {
		steps = steps[:1]
	}
	for i, step := range steps {
		if !p.whole.acts() || err != nil {
			break
		}
		if i > 0 {
			if err := f.pass(ctx, p.whole, pause, nil); err != nil {
				return give(zero, err)
			}
		}
		f.act(rec, func() { answer, err = step(p) }, &acted)
	}
	for _, e := range p.all() {
		if e.Then != nil {
			e.Then()
		}
		if err := f.pass(ctx, e, e.Late, nil); e.Late > 0 && err != nil {
			return give(zero, err)
		}
	}
	if f.isCut() {
		<-ctx.Done()
		return give(zero, ctx.Err())
	}
	for _, e := range p.all() {
		if e.Panic != nil {
			panic(e.Panic)
		}
	}
	switch {
	case p.whole.Err != nil:
		return give(zero, p.whole.Err)
	case err != nil:
		return give(zero, err)
	}
	return give(altered(p.whole, answer), nil)
}

// act calls do unless the connection is cut.
func (f *Faults) act(rec *Call, do func(), acted *bool) {
	f.acting.Lock()
	defer f.acting.Unlock()
	if f.isCut() {
		return
	}
	do()
	*acted = true
	f.mu.Lock()
	cut := f.cutAt == rec.Seq && f.cutAfter
	f.mu.Unlock()
	if cut {
		f.sever()
	}
}

// pass lets time pass and waits at the gate. It returns the context's error
// once that has ended, unless the effect is deaf.
func (f *Faults) pass(ctx context.Context, e Effect, d time.Duration, gate *Gate) error {
	done := ctx.Done()
	if e.Deaf {
		done = nil
	}
	if d > 0 {
		timer := f.clock.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.Chan():
		case <-done:
		}
	}
	if gate != nil {
		gate.wait(done)
	}
	if e.Deaf {
		return nil
	}
	return ctx.Err()
}
