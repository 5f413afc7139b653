package controller

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
)

// Config is what a [Controller] works with. All of it is required but Listen and
// Image.
type Config struct {
	// Dir is the model's directory.
	Dir string
	// State is where the controller keeps what it must not lose. It stays
	// its owner's to close, after the controller has ended.
	State *State
	// Listen is where operators log in, host:port; on the loopback interface
	// by default. The host is what they are told, and so has to be one that
	// they can reach. Port 0 is the port of the last time, or else a free one.
	Listen string
	// Image is the operator's image of applications that name none.
	Image string
	Clock clock.Clock
	// Logger hears of log-ins and of what is wrong with the model.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.NotValidf("empty Dir")
	case c.State == nil:
		return errors.NotValidf("nil State")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Logger == nil:
		return errors.NotValidf("nil Logger")
	}
	return nil
}

// Controller offers a model's directory as a facade.Applications and, if there is
// a machine, as a facade.Machine, both with all their optional interfaces. It is a
// worker.
type Controller struct {
	catacomb catacomb.Catacomb
	config   Config
	logger   *slog.Logger

	listener net.Listener
	server   *http.Server
	address  string // of the listener

	// reading is held while the model is read and made the present one.
	reading              sync.Mutex
	model                atomic.Pointer[model.Model]
	applicationWatchers  watchers[[]string]
	provisioningWatchers watchers[[]string]
	containerWatchers    watchers[[]string]
	harvestWatchers      watchers[struct{}]
	operators            *operators

	mu        sync.Mutex
	complaint string // why the model as a whole cannot be read
}

var (
	_ facade.Applications        = (*Controller)(nil)
	_ facade.ProvisioningWatcher = (*Controller)(nil)
	_ facade.BulkApplications    = (*Controller)(nil)
	_ facade.StatusSetter        = (*Controller)(nil)
	_ facade.Machine             = (*Controller)(nil)
	_ facade.HarvestWatcher      = (*Controller)(nil)
)

// New reads the model and opens the log-in endpoint. The caller owns the worker.
func New(config Config) (*Controller, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	first, err := model.Load(config.Dir)
	if err != nil {
		return nil, errors.Annotate(err, "reading the model")
	}
	c := &Controller{config: config, logger: config.Logger, operators: newOperators()}
	c.applicationWatchers.event, c.provisioningWatchers.event = byName, byName
	c.containerWatchers.event, c.harvestWatchers.event = byName, byNothing
	c.accept(first)
	if c.server, err = c.newServer(); err != nil {
		return nil, errors.Annotate(err, "making the endpoint's certificate")
	}
	if c.listener, err = config.State.listen(context.Background(), cmp.Or(config.Listen, defaultListen), c.logger); err != nil {
		return nil, err
	}
	c.address = config.State.settings.Address
	if err := catacomb.Invoke(catacomb.Plan{Site: &c.catacomb, Work: c.loop}); err != nil {
		_ = c.listener.Close()
		return nil, errors.Trace(err)
	}
	return c, nil
}

// Kill is part of worker.Worker.
func (c *Controller) Kill() { c.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (c *Controller) Wait() error { return c.catacomb.Wait() }

// Address is where operators log in, host:port.
func (c *Controller) Address() string { return c.address }

// loop serves the endpoint and follows the directory until the worker is killed
// or the endpoint breaks.
func (c *Controller) loop() error {
	served := make(chan error, 1)
	go func() { served <- c.server.ServeTLS(c.listener, "", "") }()
	defer func() {
		_ = c.server.Close()
		<-served
		c.applicationWatchers.close()
		c.provisioningWatchers.close()
		c.containerWatchers.close()
		c.harvestWatchers.close()
	}()
	c.logger.Info("operators log in here", "address", c.address)

	disk, err := watchDisk(c.config.Dir)
	if err != nil {
		c.logger.Warn("changes of the model are seen late: it cannot be watched", "err", err)
	}
	defer disk.close()
	events, broken := disk.events()

	var dirtySince time.Time // of the first event not acted on
	due := c.config.Clock.After(0)
	for {
		select {
		case <-c.catacomb.Dying():
			return c.catacomb.ErrDying()
		case err := <-served:
			served <- err // for the clean-up
			return errors.Annotate(err, "serving the log-in endpoint")
		case <-events:
			now := c.config.Clock.Now()
			if dirtySince.IsZero() {
				dirtySince = now
			}
			due = c.config.Clock.After(settle(dirtySince, now))
		case err := <-broken:
			// Events were lost. The reading finds what they were about.
			c.logger.Debug("watching the model", "err", err)
			due = c.config.Clock.After(quiet)
		case <-due:
			if err := disk.follow(); err != nil {
				c.logger.Debug("watching the model's directories", "err", err)
			}
			c.reading.Lock()
			c.reload()
			c.reading.Unlock()
			dirtySince, due = time.Time{}, c.config.Clock.After(rescan)
		}
	}
}

// reload reads the model and tells the watchers what changed. It is called with
// reading held.
func (c *Controller) reload() {
	next, err := model.Load(c.config.Dir)
	if err != nil {
		c.complain(err.Error())
		return
	}
	c.complain("")
	c.accept(next)
}

// complain notes, and logs once, why the model as a whole cannot be read.
func (c *Controller) complain(complaint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if complaint != "" && complaint != c.complaint {
		c.logger.Error("the model cannot be read, going on with what it was", "err", complaint)
	}
	c.complaint = complaint
}

// accept makes a reading the present one.
func (c *Controller) accept(next *model.Model) {
	before := c.model.Load()
	if before != nil && before.UUID != next.UUID {
		c.complain(model.SettingsFile + ": the uuid changed; that takes a new start of the agent")
		return
	}
	keepMachine(before, next)
	c.logProblems(before, next)
	if err := c.config.State.containers.follow(next); err != nil {
		// Said again at the next reading, with what there is by then.
		c.logger.Error("what is kept of containers cannot be written", "err", err.Error())
	}
	c.model.Store(next)
	c.operators.forget(func(app string) bool { return next.Applications[app] != nil })
	changes := model.Diff(before, next)
	c.applicationWatchers.tell(changes.Applications)
	c.provisioningWatchers.tell(changes.Provisioning)
	c.containerWatchers.tell(changes.Containers)
	if changes.Harvest {
		c.harvestWatchers.tell([]string{model.MachineFile})
	}
}

// logProblems logs each problem when it appears and when it is gone.
func (c *Controller) logProblems(before, next *model.Model) {
	var old []*model.Problem
	if before != nil {
		old = before.Problems
	}
	has := func(list []*model.Problem, p *model.Problem) bool {
		return slices.ContainsFunc(list, func(q *model.Problem) bool { return q.Error() == p.Error() })
	}
	for _, p := range next.Problems {
		if !has(old, p) {
			c.logger.Error("malformed model", "problem", p.Error())
		}
	}
	for _, p := range old {
		if !has(next.Problems, p) {
			c.logger.Info("no longer malformed", "file", p.File)
		}
	}
}

// current is the last reading; it is never nil.
func (c *Controller) current() *model.Model { return c.model.Load() }

// watch makes a watcher of one kind, with all applications as its baseline.
func (c *Controller) watch(kind *watchers[[]string]) (facade.StringsWatcher, error) {
	return kind.add(func() []string { return slices.Sorted(maps.Keys(c.current().Applications)) }, nil)
}
