package backendtest

import (
	"context"
	stderrors "errors"
	"fmt"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

func interruptionChecks() []Check {
	return []Check{
		{Name: "CancelledCallsAreErrorsAndDoNothing", run: checkCancelled},
		{Name: "EndedDeadlineIsAnError", run: checkDeadline},
		{Name: "InterruptedStartIsCompletedByTheNext", run: checkInterruptedStart},
		{Name: "InterruptedStartIsCompletedByTheNextAgent", needs: needsRestart, run: checkStartAcrossRestart},
		{Name: "WhatAnInterruptedStartLeftIsListedAndStops", run: checkInterruptedThenStopped},
		{Name: "InterruptedStopIsCompletedByTheNext", run: checkInterruptedStop},
		{Name: "HalfMadeInstanceIsCompleted", needs: needsHalfMake, run: checkHalfMade},
		{Name: "HalfMadeInstanceIsListedAndStops", needs: needsHalfMake, run: checkHalfMadeStops},
	}
}

// checkCancelled is a worker that is being killed: what it has begun must come
// back at once, and must not be done after all.
func checkCancelled(c *checker) {
	b := c.broker()
	there, absent := c.id(0), c.id(1)
	kept := c.start(b, there).InstanceID
	c.callsFail(b, there, absent, kept, context.Canceled, func(what string, f func(context.Context) error) error {
		return c.interrupted(what, 0, f)
	})
}

func checkDeadline(c *checker) {
	b := c.broker()
	there, absent := c.id(0), c.id(1)
	kept := c.start(b, there).InstanceID
	c.callsFail(b, there, absent, kept, context.DeadlineExceeded, func(what string, f func(context.Context) error) error {
		return c.call(what, func(ctx context.Context) error {
			ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
			defer cancel()
			return f(ctx)
		})
	})
}

// callsFail makes every call of a broker by way of do, which gives it a context
// that has ended.
func (c *checker) callsFail(b container.Broker, there, absent string, kept container.InstanceID, want error, do func(string, func(context.Context) error) error) {
	c.Helper()
	for what, f := range map[string]func(context.Context) error{
		"StartInstance": c.starting(b, c.params(absent), nil),
		"AllInstances":  func(ctx context.Context) error { _, err := b.AllInstances(ctx); return err },
		"StopInstances": func(ctx context.Context) error {
			results := b.StopInstances(ctx, kept)
			if len(results) != 1 {
				return errors.Errorf("%d results for one id", len(results))
			}
			return results[0]
		},
	} {
		if err := do(what, f); !errors.Is(err, want) {
			c.Errorf("%s with a context that has ended: error %v, want %v", what, err, want)
		}
	}
	c.runs(b, there, kept)
	c.gone(b, absent)
}

// points are when a call that takes that long is interrupted.
func points(took time.Duration) []time.Duration {
	const n = 5
	out := make([]time.Duration, 0, n)
	for i := range n {
		out = append(out, took*time.Duration(2*i+1)/(2*n))
	}
	return out
}

// eachInterruption measures how long a start takes, and then interrupts one of
// another container at each of several points; then it calls after with that.
func (c *checker) eachInterruption(b container.Broker, after func(id string)) {
	c.Helper()
	began := time.Now()
	c.runs(b, c.id(0), c.start(b, c.id(0)).InstanceID)
	for i, at := range points(time.Since(began)) {
		id := c.id(i + 1)
		err := c.interrupted("StartInstance", at, c.starting(b, c.params(id), nil))
		if err != nil && !errors.Is(err, context.Canceled) {
			c.Errorf("StartInstance that is cancelled after %v: error %v, want none or context.Canceled", at, err)
		}
		after(id)
	}
}

// checkInterruptedStart is a provisioner that is killed in the middle, at every
// stage that a start may be in, and lives on.
func checkInterruptedStart(c *checker) {
	b := c.broker()
	c.eachInterruption(b, func(id string) {
		result := c.start(b, id)
		c.runs(b, id, result.InstanceID)
		c.stop(b, result.InstanceID)
		c.gone(b, id)
	})
}

func checkStartAcrossRestart(c *checker) {
	b := c.broker()
	c.eachInterruption(b, func(id string) {
		c.restart()
		next := c.broker()
		c.runs(next, id, c.start(next, id).InstanceID)
	})
}

// checkInterruptedThenStopped is a container that was removed meanwhile. What is
// half-made, too, has an id to be stopped by.
func checkInterruptedThenStopped(c *checker) {
	b := c.broker()
	c.eachInterruption(b, func(id string) { c.removed(b, id) })
}

// removed stops what is listed for the container, until nothing is.
func (c *checker) removed(b container.Broker, id string) {
	c.Helper()
	c.eventually(fmt.Sprintf("no instance of %q", id), func() string {
		for range 2 { // without a pause, where that is enough
			list, err := c.tryList(b)
			if err != nil {
				return err.Error()
			}
			left := of(list, id)
			if len(left) == 0 {
				return ""
			}
			if err := c.tryStop(b, left[0].ID)[0]; err != nil {
				return err.Error()
			}
		}
		return "one was listed"
	})
}

// checkInterruptedStop: an instance that is half removed is stopped or started
// no less than any other.
func checkInterruptedStop(c *checker) {
	b := c.broker()
	stop := func(instance container.InstanceID) func(context.Context) error {
		return func(ctx context.Context) error { return stderrors.Join(b.StopInstances(ctx, instance)...) }
	}
	first := c.start(b, c.id(0)).InstanceID
	began := time.Now()
	c.stop(b, first)
	for i, at := range points(time.Since(began)) {
		id := c.id(i + 1)
		instance := c.start(b, id).InstanceID
		if err := c.interrupted("StopInstances", at, stop(instance)); err != nil && !errors.Is(err, context.Canceled) {
			c.Errorf("StopInstances that is cancelled after %v: error %v, want none or context.Canceled", at, err)
		}
		if i%2 == 0 {
			c.stop(b, instance)
			c.gone(b, id)
			continue
		}
		c.restarted(b, id)
	}
}

func (c *checker) halfMade(id string) {
	c.Helper()
	if err := c.HalfMake(id); err != nil {
		c.fatalf("HalfMake(%q): %v", id, err)
	}
}

func checkHalfMade(c *checker) {
	b := c.broker()
	id := c.id(0)
	c.halfMade(id)
	result := c.start(b, id)
	c.runs(b, id, result.InstanceID)
	if again := c.start(b, id); again.InstanceID != result.InstanceID {
		c.Errorf("StartInstance returns %q, and %q the first time", again.InstanceID, result.InstanceID)
	}
	c.stop(b, result.InstanceID)
	c.gone(b, id)
}

func checkHalfMadeStops(c *checker) {
	b := c.broker()
	id := c.id(0)
	c.halfMade(id)
	c.eventually(fmt.Sprintf("the half-made instance of %q listed", id), func() string {
		list, err := c.tryList(b)
		if err != nil {
			return err.Error()
		}
		switch got := of(list, id); {
		case len(got) != 1:
			return fmt.Sprintf("%d are listed", len(got))
		case got[0].Running:
			c.Errorf("the half-made instance of %q is listed as running", id)
		}
		return ""
	})
	c.removed(b, id)
}
