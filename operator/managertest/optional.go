package managertest

import (
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func listingChecks() []Check {
	return []Check{
		{Name: "WholeAndHalfMadeOperatorsAreListedAndNoOthers", needs: needsLister, run: checkLister},
	}
}

// checkLister is how a provisioner finds what was left by applications that were
// removed while it was down; half-made ones are left over no less.
func checkLister(c *checker) {
	whole, half, never := c.app(0), c.app(1), c.app(2)
	c.made(whole, c.config(whole, 1))
	want := []string{whole}
	if needsHalfMaking(c.Harness) == "" {
		c.halfMade(half, c.config(half, 1))
		want = append(want, half)
	}
	c.lists(want...)
	c.unlisted(never)
	for _, app := range want {
		c.removed(app)
		c.unlisted(app)
	}
}

func watchingChecks() []Check {
	return []Check{
		{Name: "WatcherTellsTheBaselineThenChanges", needs: needsWatcher, run: checkWatcher},
		{Name: "WatcherEndsWhenKilled", needs: needsWatcher, run: checkWatcherEnds},
	}
}

// watch returns a watcher and how to end it, or nil when the manager cannot
// tell of changes after all.
func (c *checker) watch() (facade.StringsWatcher, func()) {
	c.Helper()
	w, err := c.Manager.(operator.Watcher).WatchOperators(c.Context())
	switch {
	case errors.Is(err, errors.NotSupported):
		c.Logf("does not apply: WatchOperators is not supported")
		return nil, nil
	case err != nil:
		c.fatalf("WatchOperators: %v", err)
	}
	return w, func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			c.Errorf("Wait of a watcher that was killed: %v", err)
		}
	}
}

// event returns the watcher's next event, and ends the check when there is
// none within the budget.
func (c *checker) event(w facade.StringsWatcher, what string) []string {
	c.Helper()
	timer := time.NewTimer(c.Budget)
	defer timer.Stop()
	select {
	case names, ok := <-w.Changes():
		if !ok {
			c.fatalf("%s: the channel of changes is closed", what)
		}
		return names
	case <-timer.C:
		c.fatalf("%s: no event within %v", what, c.Budget)
	}
	return nil
}

// told waits for an event that names the application.
func (c *checker) told(w facade.StringsWatcher, app, what string) {
	c.Helper()
	for deadline := time.Now().Add(c.Budget); time.Now().Before(deadline); {
		if slices.Contains(c.event(w, what), app) {
			return
		}
	}
	c.fatalf("%s: no event names %q within %v", what, app, c.Budget)
}

// checkWatcher wants every way in which an operator changes to be told. Events
// may be merged and repeated, so the check waits for one that names the
// application and ignores the others.
func checkWatcher(c *checker) {
	first, second := c.app(0), c.app(1)
	gen := c.made(first, c.config(first, 1))
	w, end := c.watch()
	if w == nil {
		return
	}
	defer end()
	if names := c.event(w, "baseline"); !slices.Contains(names, first) {
		c.Errorf("the baseline %q does not name %q, which is there", names, first)
	}

	c.made(second, c.config(second, 1))
	c.told(w, second, "an operator that was made")
	cfg := c.config(first, 2)
	cfg.Generation = gen
	c.made(first, cfg)
	c.told(w, first, "an operator that was updated")

	c.removed(second)
	c.told(w, second, "an operator that was deleted")
	if c.Vanish != nil {
		c.drain(w)
		c.vanish(first)
		c.told(w, first, "an operator that vanished")
	}
}

// drain reads what is there to be read, so that the next event is of what
// happens next. An event that is still under way may come after it.
func (c *checker) drain(w facade.StringsWatcher) {
	for {
		select {
		case _, ok := <-w.Changes():
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// checkWatcherEnds holds the manager's watchers to what a worker is: it can be
// stopped, twice too, and then says that all was well.
func checkWatcherEnds(c *checker) {
	w, end := c.watch()
	if w == nil {
		return
	}
	first := w.Changes()
	if second := w.Changes(); first != second {
		c.Errorf("Changes returns another channel the second time")
	}
	end()
	end()

	// A watcher that nobody reads holds nobody up, and neither does one
	// that is dead.
	unread, endUnread := c.watch()
	defer endUnread()
	for i := range 5 {
		app := c.app(i)
		c.made(app, c.config(app, 1))
	}
	c.eventually("baseline of an unread watcher", func() string {
		select {
		case <-unread.Changes():
			return ""
		default:
			return "nothing to read"
		}
	})
}
