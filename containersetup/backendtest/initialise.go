package backendtest

import (
	"context"
	"time"

	"github.com/juju/errors"
)

func initialiseChecks() []Check {
	return []Check{
		{Name: "InitialiseTwiceChangesNothing", run: checkTwice},
		{Name: "InitialiseOneAfterAnotherFromManySides", run: checkManySides},
		{Name: "InitialiseAfterRestartChangesNothing", needs: needsRestart, run: checkInitialiseAfterRestart},
		{Name: "CancelledInitialiseIsAnErrorAndChangesNothing", run: checkCancelledInitialise},
		{Name: "InterruptedInitialiseReturnsAndTheNextCompletes", run: checkInterruptedInitialise},
		{Name: "InterruptedInitialiseIsCompletedByTheNextAgent", needs: needsRestart, run: checkInitialiseAcrossRestart},
		{Name: "CancelledNewBrokerIsAnError", run: checkCancelledBroker},
	}
}

// changes returns how often the host was really changed; 0 without the hook.
func (c *checker) changes() int {
	if c.Initialised == nil {
		return 0
	}
	return c.Initialised()
}

// unchanged fails the check when do changes the host.
func (c *checker) unchanged(what string, do func()) {
	c.Helper()
	before := c.changes()
	do()
	if after := c.changes(); after != before {
		c.Errorf("%s changes the host (%d changes before, %d after)", what, before, after)
	}
}

// checkTwice is an agent whose first Initialise was lost, or that starts again.
func checkTwice(c *checker) {
	c.prepared()
	c.unchanged("the second Initialise", c.prepared)
	c.unchanged("an Initialise with a broker about", func() {
		c.broker()
		c.prepared()
	})
}

// checkManySides is several workers that each hold the machine lock in turn.
func checkManySides(c *checker) {
	c.prepared()
	c.unchanged("an Initialise after the first", func() {
		c.together(c.Parallel, func(int) {
			if err := c.tryInitialise(); err != nil {
				c.Errorf("Initialise: %v", err)
			}
		})
	})
	c.broker()
}

func checkInitialiseAfterRestart(c *checker) {
	c.prepared()
	c.restart()
	c.unchanged("Initialise by the next agent", c.prepared)
	c.broker()
}

// checkCancelledInitialise is a worker that is killed while it waits for the
// lock, and gets it at the same moment.
func checkCancelledInitialise(c *checker) {
	c.unchanged("Initialise with a cancelled context", func() {
		if err := c.interrupted("Initialise", 0, c.initialise); !errors.Is(err, context.Canceled) {
			c.Errorf("Initialise with a cancelled context: error %v, want context.Canceled", err)
		}
	})
	c.broker()
}

// interruptions calls Initialise and cancels it, later each time, until one is
// done before it is cancelled. Each goes on where the one before left off, or
// begins again, so it comes to an end either way.
func (c *checker) interruptions(between func()) {
	deadline := time.Now().Add(c.Budget)
	for after := time.Millisecond; time.Now().Before(deadline); after *= 2 {
		err := c.interrupted("Initialise", after, c.initialise)
		switch {
		case err == nil:
			return
		case !errors.Is(err, context.Canceled):
			c.fatalf("Initialise that is cancelled after %v: error %v, want none or context.Canceled", after, err)
		}
		between()
	}
}

func checkInterruptedInitialise(c *checker) {
	c.interruptions(func() {})
	b := c.broker()
	c.list(b)
	c.unchanged("Initialise of what was completed", c.prepared)
}

func checkInitialiseAcrossRestart(c *checker) {
	c.interruptions(c.restart)
	b := c.broker()
	c.list(b)
	c.unchanged("Initialise of what was completed", c.prepared)
}

func checkCancelledBroker(c *checker) {
	c.prepared()
	err := c.interrupted("NewBroker", 0, func(ctx context.Context) error {
		_, err := c.Backend.NewBroker(ctx, c.Settings)
		return err
	})
	// One that connects only when it is used has nothing to cancel.
	if err != nil && !errors.Is(err, context.Canceled) {
		c.Errorf("NewBroker with a cancelled context: error %v, want none or context.Canceled", err)
	}
	c.broker()
}
