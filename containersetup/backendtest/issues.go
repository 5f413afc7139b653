package backendtest

import (
	"context"
	stderrors "errors"
	"fmt"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Old bug reports about systems that do a like job. Each says what went wrong
// there; the check is what is right here.

func issueChecks() []Check {
	return []Check{
		{Name: "Issue/InitialisedHostIsLeftAsItIs", run: checkLeftAsItIs},
		{Name: "Issue/BrokerBeforeInitialiseIsAnErrorOrWorks", run: checkBrokerFirst},
		{Name: "Issue/BackendIsReadyOnceInitialised", run: checkReady},
		{Name: "Issue/DaemonRestartsInTheMiddle", needs: needsRestartDaemon, run: checkDaemonRestarts},
		{Name: "Issue/ParallelCreationsAllComeAbout", run: checkParallelCreations},
		{Name: "Issue/LongNamesWorkAndDoNotClash", run: checkLongNames},
		{Name: "Issue/UnsupportedIsSaidEachTime", needs: needsUnsupported, run: checkUnsupported},
		{Name: "Issue/ContextThatNeverEnds", run: checkBackground},
		{Name: "Issue/FirstProbeReturnsInTime", run: checkProbe},
	}
}

// https://github.com/juju/juju/pull/6764: after a reboot the host was initialised
// again by a command that refuses to where there are containers; the next ones
// were pending for ever.
// https://github.com/juju/juju/pull/5295: every run picked another subnet, and
// running containers lost their network.
func checkLeftAsItIs(c *checker) {
	b := c.broker()
	id := c.id(0)
	kept := c.start(b, id).InstanceID
	for range 3 {
		if c.Restart != nil {
			c.restart()
		}
		c.unchanged("Initialise of a host with instances", c.prepared)
		b = c.broker()
		c.runs(b, id, kept)
	}
}

// https://github.com/juju/juju/pull/8902: the broker was connected before there
// was a daemon to connect to, and nobody connected it again.
func checkBrokerFirst(c *checker) {
	if b, err := c.tryBroker(); err == nil {
		// Prepared before, or one that connects only when it is used.
		if _, err := c.tryList(b); err != nil {
			c.Logf("AllInstances before Initialise: %v", err)
		}
	} else {
		c.Logf("NewBroker before Initialise: %v", err)
	}
	b := c.broker()
	c.list(b)
	id := c.id(0)
	c.runs(b, id, c.start(b, id).InstanceID)
}

// https://github.com/canonical/lxd/issues/4265 and
// https://github.com/canonical/lxd/issues/4510: just after the installation the
// socket was not there yet, and waiting for the daemon hung. Whoever returns
// from Initialise has waited.
func checkReady(c *checker) {
	for i := range 3 {
		c.prepared()
		b, err := c.tryBroker()
		if err != nil {
			c.fatalf("NewBroker right after Initialise: %v", err)
		}
		if _, err := c.tryList(b); err != nil {
			c.fatalf("AllInstances right after Initialise: %v", err)
		}
		c.start(b, c.id(i))
	}
}

// https://github.com/juju/juju/pull/9611: the daemon was restarted while
// somebody waited for an operation; it was forgotten there, and the wait never
// ended.
func checkDaemonRestarts(c *checker) {
	b := c.broker()
	began := time.Now()
	c.start(b, c.id(0))
	for i, at := range points(time.Since(began)) {
		id := c.id(i + 1)
		ctx, cancel := context.WithTimeout(c.Context(), c.Budget)
		done := c.begin(ctx, "StartInstance", c.starting(b, c.params(id), nil))
		time.Sleep(at) // to be at another stage each time
		if err := c.RestartDaemon(); err != nil {
			c.Errorf("RestartDaemon: %v", err)
		}
		err := c.returned(ctx, "StartInstance", done)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("StartInstance waits for a daemon that was restarted until its deadline")
		}
		c.eventually("Initialise after the daemon was restarted", func() string {
			if err := c.tryInitialise(); err != nil {
				return err.Error()
			}
			return ""
		})
		b = c.broker()
		c.restarted(b, id)
	}
	c.runs(b, c.id(0), "")
}

// https://github.com/canonical/lxd/issues/12131: of eight instances created at
// once, some timed out. That may be so; then the next attempt makes them, and
// none twice.
func checkParallelCreations(c *checker) {
	b := c.broker()
	const n = 8
	c.together(n, func(i int) {
		last := c.poll(func() string {
			if _, err := c.tryStart(b, c.id(i)); err != nil {
				return err.Error()
			}
			return ""
		})
		if last != "" {
			c.Errorf("StartInstance(%q): not within %v: %s", c.id(i), c.Budget, last)
		}
	})
	seen := make(map[container.InstanceID]string)
	for i := range n {
		c.runs(b, c.id(i), "")
		for _, instance := range of(c.list(b), c.id(i)) {
			if other, ok := seen[instance.ID]; ok {
				c.Errorf("%q and %q have the instance %q", other, c.id(i), instance.ID)
			}
			seen[instance.ID] = c.id(i)
		}
	}
}

// https://github.com/canonical/charmcraft/issues/629: the name of an instance was
// made from several others, and refused for being longer than 63 characters.
// Names that are cut to fit must not become the same.
func checkLongNames(c *checker) {
	b := c.broker()
	started := make(map[container.InstanceID]string)
	instances := make(map[string]container.InstanceID)
	for _, length := range []int{40, 63, 64, 120} {
		for _, number := range []int{c.base, c.base + 1} { // differ at the end alone
			id := c.named(c.nested(length, number))
			instance := c.start(b, id).InstanceID
			if other, ok := started[instance]; ok {
				c.fatalf("%q and %q have the instance %q", other, id, instance)
			}
			started[instance], instances[id] = id, instance
		}
	}
	for id, instance := range instances {
		c.runs(b, id, instance) // listed by its id as it is, not as it was cut
	}
	// What is taken away is the one that was meant.
	first, second := c.nested(120, c.base), c.nested(120, c.base+1)
	c.stop(b, instances[first])
	c.gone(b, first)
	c.runs(b, second, instances[second])
}

// nested returns a container id of that length, as far as the type's own length
// allows it.
func (c *checker) nested(length, number int) string {
	last := fmt.Sprintf("/%s/%d", c.Type, number)
	var id strings.Builder
	id.WriteString(c.Host)
	left := func() int { return length - id.Len() - len(last) }
	const digits = 9 // of a number, at most
	prefix := len(c.Type) + 2
	for left() > prefix+digits {
		fmt.Fprintf(&id, "/%s/%d", c.Type, id.Len()%10)
	}
	if n := left() - prefix; n > 0 {
		fmt.Fprintf(&id, "/%s/%s", c.Type, strings.Repeat("7", n))
	}
	return id.String() + last
}

// https://github.com/juju/juju/issues/22056: where containers were not supported,
// the worker that had them was started again and again, since nobody told the
// error from one that passes.
func checkUnsupported(c *checker) {
	initialise := func(ctx context.Context) error { return c.locked(ctx, c.Unsupported) }
	for range 2 {
		if err := c.call("Initialise", initialise); !errors.Is(err, errors.NotSupported) {
			c.Errorf("Initialise of an unsupported machine: error %v, want errors.NotSupported", err)
		}
	}
}

// https://github.com/juju/juju/pull/9041: what to cancel with was not optional,
// and not given either; no container was initialised. The channel of a context
// that cannot be cancelled is nil, which is no reason to refuse it.
func checkBackground(c *checker) {
	b := c.broker()
	id := c.id(0)
	background := func(f func(context.Context) error) func(context.Context) error {
		return func(context.Context) error { return f(context.Background()) }
	}
	var result container.StartResult
	for _, step := range []struct {
		what string
		f    func(context.Context) error
	}{
		{"Initialise", c.initialise},
		{"NewBroker", func(ctx context.Context) error { _, err := c.Backend.NewBroker(ctx, c.Settings); return err }},
		{"StartInstance", c.starting(b, c.params(id), &result)},
		{"AllInstances", func(ctx context.Context) error { _, err := b.AllInstances(ctx); return err }},
		{"StopInstances", func(ctx context.Context) error {
			return stderrors.Join(b.StopInstances(ctx, result.InstanceID)...)
		}},
	} {
		if err := c.call(step.what, background(step.f)); err != nil {
			c.fatalf("%s with a context that never ends: %v", step.what, err)
		}
	}
	c.gone(b, id)
}

// https://github.com/hashicorp/nomad/issues/5561: the agent did not come up, for
// the first look at its devices did not return. Here the first call of each kind
// has little time; it may not be enough, and is kept to.
func checkProbe(c *checker) {
	const little = 10 * time.Millisecond
	if err := c.interrupted("Initialise", little, c.initialise); err != nil && !errors.Is(err, context.Canceled) {
		c.Errorf("Initialise that is cancelled: error %v, want none or context.Canceled", err)
	}
	b := c.broker()
	err := c.interrupted("AllInstances", little, func(ctx context.Context) error { _, err := b.AllInstances(ctx); return err })
	if err != nil && !errors.Is(err, context.Canceled) {
		c.Errorf("AllInstances that is cancelled: error %v, want none or context.Canceled", err)
	}
	c.list(b)
}
