package backendtest

import (
	"context"
	stderrors "errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// checker is what a check works with. The methods whose doc comment says that
// they end the check must be called from its own goroutine only; all others
// from any.
type checker struct {
	T
	Harness
	base int // of the numbers of the check's containers

	// initialising holds one at a time; no mutex, for which virtual time
	// would not pass.
	initialising chan struct{}

	mu      sync.Mutex
	ids     map[string]bool
	secrets map[string]bool
}

func newChecker(t T, name string, h Harness) *checker {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // never fails
	return &checker{
		T: t, Harness: h, base: int(sum.Sum32()%900_000) * 100,
		initialising: make(chan struct{}, 1),
		ids:          make(map[string]bool), secrets: make(map[string]bool),
	}
}

// id returns the check's i-th container.
func (c *checker) id(i int) string {
	return c.named(container.ID{Host: c.Host, Type: c.Type, Number: c.base + i}.String())
}

// named makes the check own a container of that id.
func (c *checker) named(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids[id] = true
	return id
}

// params returns what the container is made from; its secrets are looked for
// from then on.
func (c *checker) params(id string) container.StartParams {
	p := c.Params(id)
	c.guard(p.Info.UserData)
	return p
}

// guard makes every line of a secret that is long enough to be recognised one
// that nobody may repeat.
func (c *checker) guard(s facade.Secret) {
	const recognised = 16
	c.mu.Lock()
	defer c.mu.Unlock()
	for line := range strings.Lines(s.Reveal()) {
		if line = strings.TrimSpace(line); len(line) >= recognised {
			c.secrets[line] = true
		}
	}
}

// clean fails the check when the text, which is called what, has a secret in
// it, and does not repeat it.
func (c *checker) clean(what, text string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.secrets {
		if strings.Contains(text, s) {
			c.Errorf("%s repeats a line of user data", what)
			return
		}
	}
}

// fatalf ends the check.
func (c *checker) fatalf(format string, args ...any) {
	c.Helper()
	c.Errorf(format, args...)
	c.FailNow()
}

// Errors of calls that did not come to an end of their own.
const (
	errHangs  = errors.ConstError("does not return although its context has ended")
	errPanics = errors.ConstError("panics")
)

// call makes a call of the back end that is called what, with the budget for a
// deadline, and searches its error. A panic and a call that does not return fail
// the check and are errors.
func (c *checker) call(what string, f func(context.Context) error) error {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), c.Budget)
	defer cancel()
	return c.returned(ctx, what, c.begin(ctx, what, f))
}

// interrupted is as call, and cancels the context after a time.
func (c *checker) interrupted(what string, after time.Duration, f func(context.Context) error) error {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if after <= 0 {
		cancel()
	}
	done := c.begin(ctx, what, f)
	timer := time.AfterFunc(after, cancel)
	defer timer.Stop()
	return c.returned(ctx, what, done)
}

// begin makes the call in a goroutine of its own.
func (c *checker) begin(ctx context.Context, what string, f func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				c.clean("the panic of "+what, fmt.Sprint(v))
				c.Errorf("%s panics", what)
				done <- errors.Annotate(errPanics, what)
			}
		}()
		done <- f(ctx)
	}()
	return done
}

// returned waits for a call that was begun.
func (c *checker) returned(ctx context.Context, what string, done <-chan error) error {
	c.Helper()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		timer := time.NewTimer(c.Prompt)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-timer.C:
			c.Errorf("%s has not returned %v after its context ended", what, c.Prompt)
			return errors.Annotate(errHangs, what)
		}
	}
	if err != nil {
		c.clean("the error of "+what, fmt.Sprintf("%v %+v", err, err))
	}
	return err
}

// The calls of a back end, as functions of a context.

func (c *checker) initialise(ctx context.Context) error {
	return c.locked(ctx, c.Backend.Initialiser)
}

// locked initialises while nobody else does.
func (c *checker) locked(ctx context.Context, i container.Initialiser) error {
	c.initialising <- struct{}{}
	defer func() { <-c.initialising }()
	if c.Lock != nil {
		release, err := c.Lock.Acquire(ctx, container.Holder{Worker: "backendtest", Reason: "initialise " + string(c.Type)})
		if err != nil {
			return err
		}
		defer release()
	}
	return i.Initialise(ctx)
}

func (c *checker) starting(b container.Broker, p container.StartParams, into *container.StartResult) func(context.Context) error {
	return func(ctx context.Context) error {
		result, err := b.StartInstance(ctx, p)
		if err == nil && into != nil {
			*into = result
		}
		return err
	}
}

// tryInitialise, tryStart, tryList and tryStop make one call.

func (c *checker) tryInitialise() error {
	c.Helper()
	return c.call("Initialise", c.initialise)
}

func (c *checker) tryBroker() (container.Broker, error) {
	c.Helper()
	var b container.Broker
	err := c.call("NewBroker", func(ctx context.Context) (err error) {
		b, err = c.Backend.NewBroker(ctx, c.Settings)
		if err == nil && b == nil {
			err = errors.New("a nil Broker without an error")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (c *checker) tryStart(b container.Broker, id string) (container.StartResult, error) {
	c.Helper()
	var result container.StartResult
	err := c.call("StartInstance", c.starting(b, c.params(id), &result))
	if err != nil {
		return container.StartResult{}, err
	}
	c.clean("the instance's id", string(result.InstanceID))
	return result, nil
}

func (c *checker) tryList(b container.Broker) ([]container.Instance, error) {
	c.Helper()
	var list []container.Instance
	err := c.call("AllInstances", func(ctx context.Context) error {
		got, err := b.AllInstances(ctx)
		list = got
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		c.clean("the instance's id", string(i.ID))
		c.clean("the instance's status", i.Status)
	}
	return list, nil
}

// tryStop returns one error per id whatever the broker returned.
func (c *checker) tryStop(b container.Broker, ids ...container.InstanceID) []error {
	c.Helper()
	var results []error
	err := c.call("StopInstances", func(ctx context.Context) error {
		got := b.StopInstances(ctx, ids...)
		if len(got) != len(ids) {
			return errors.Errorf("%d results for %d ids", len(got), len(ids))
		}
		results = got
		return nil
	})
	if err != nil {
		c.Errorf("StopInstances: %v", err)
		results = slices.Repeat([]error{err}, len(ids))
	}
	for _, err := range results {
		if err != nil {
			c.clean("a result of StopInstances", fmt.Sprintf("%v %+v", err, err))
		}
	}
	return results
}

// The same, where an error ends the check.

// prepared initialises the host.
func (c *checker) prepared() {
	c.Helper()
	if err := c.tryInitialise(); err != nil {
		c.fatalf("Initialise: %v", err)
	}
}

// broker initialises the host and returns a broker.
func (c *checker) broker() container.Broker {
	c.Helper()
	c.prepared()
	b, err := c.tryBroker()
	if err != nil {
		c.fatalf("NewBroker after Initialise: %v", err)
	}
	return b
}

// start starts the container's instance, and ends the check when it is not as it
// must always be.
func (c *checker) start(b container.Broker, id string) container.StartResult {
	c.Helper()
	result, err := c.tryStart(b, id)
	if err != nil {
		c.fatalf("StartInstance(%q): %v", id, err)
	}
	if result.InstanceID == "" {
		c.fatalf("StartInstance(%q) returns an empty InstanceID", id)
	}
	return result
}

func (c *checker) list(b container.Broker) []container.Instance {
	c.Helper()
	list, err := c.tryList(b)
	if err != nil {
		c.fatalf("AllInstances: %v", err)
	}
	return list
}

func (c *checker) stop(b container.Broker, ids ...container.InstanceID) {
	c.Helper()
	for i, err := range c.tryStop(b, ids...) {
		if err != nil {
			c.fatalf("StopInstances of %q: %v", ids[i], err)
		}
	}
}

// restart replaces the back end by one of the next agent.
func (c *checker) restart() {
	c.Helper()
	next, err := c.Restart()
	if err != nil {
		c.fatalf("Restart: %v", err)
	}
	if err := next.Validate(); err != nil {
		c.fatalf("Restart returns a Backend that is wrong: %v", err)
	}
	c.Backend = next
}

// of returns the instances that are listed for the container.
func of(list []container.Instance, id string) []container.Instance {
	return slices.DeleteFunc(slices.Clone(list), func(i container.Instance) bool { return i.ContainerID != id })
}

// runs waits until exactly one instance of the container is listed, and runs, and
// has the id given if there is one.
func (c *checker) runs(b container.Broker, id string, instance container.InstanceID) {
	c.Helper()
	c.eventually(fmt.Sprintf("one instance of %q running", id), func() string {
		list, err := c.tryList(b)
		if err != nil {
			return err.Error()
		}
		switch got := of(list, id); {
		case len(got) != 1:
			return fmt.Sprintf("%d are listed", len(got))
		case instance != "" && got[0].ID != instance:
			return fmt.Sprintf("%q is listed, not %q", got[0].ID, instance)
		case !got[0].Running:
			return fmt.Sprintf("it does not run: %q", got[0].Status)
		}
		return ""
	})
}

// gone waits until no instance of the container is listed.
func (c *checker) gone(b container.Broker, id string) {
	c.Helper()
	c.eventually(fmt.Sprintf("no instance of %q", id), func() string {
		list, err := c.tryList(b)
		if err != nil {
			return err.Error()
		}
		if got := of(list, id); len(got) > 0 {
			return fmt.Sprintf("%q is listed", got[0].ID)
		}
		return ""
	})
}

// eventually ends the check when why does not return "" within the budget.
func (c *checker) eventually(what string, why func() string) {
	c.Helper()
	if last := c.poll(why); last != "" {
		c.fatalf("%s: not within %v: %s", what, c.Budget, last)
	}
}

func (c *checker) poll(why func() string) string {
	for deadline := time.Now().Add(c.Budget); ; time.Sleep(c.Poll) {
		last := why()
		if last == "" || !time.Now().Before(deadline) {
			return last
		}
	}
}

// together runs f for 0 to n-1 at once and waits for all.
func (c *checker) together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// cleanUp removes what the check has made, also when the check has failed or its
// context is over.
func (c *checker) cleanUp() {
	if len(c.ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), c.Budget)
	defer cancel()
	defer func() {
		if recover() != nil {
			c.Errorf("clean-up: the back end panics")
		}
	}()
	b, err := c.Backend.NewBroker(ctx, c.Settings)
	if err != nil || b == nil {
		c.Logf("clean-up: NewBroker: %v", err)
		return
	}
	mine := func() (ids []container.InstanceID, err error) {
		list, err := b.AllInstances(ctx)
		for _, i := range list {
			if c.ids[i.ContainerID] {
				ids = append(ids, i.ID)
			}
		}
		return ids, err
	}
	last := c.poll(func() string {
		left, err := mine()
		if err == nil && len(left) > 0 {
			if err = stderrors.Join(b.StopInstances(ctx, left...)...); err == nil {
				left, err = mine()
			}
		}
		switch {
		case err != nil:
			return err.Error()
		case len(left) > 0:
			return fmt.Sprintf("%q left", left)
		}
		return ""
	})
	if last != "" {
		c.Errorf("clean-up: %s", last)
	}
}
