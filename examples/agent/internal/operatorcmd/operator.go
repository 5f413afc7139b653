package operatorcmd

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/retry"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
	"github.com/sutler-dev/sutler/facade"
)

const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 5 * time.Second
	// goodbye is how long the last status may take.
	goodbye = time.Second
)

// Config is what an operator is started with. All of it is required but Listen
// and Host.
type Config struct {
	// Dir has the operator's files.
	Dir string
	// Application is the name of the application that this is the operator
	// of.
	Application string
	// Listen is where the operator serves, host:port; a free port of the
	// loopback interface by default. Host is what the controller is told in
	// place of its host, if there is another that the operator is reached by.
	Listen, Host string
	Clock        clock.Clock
	Logger       *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.NotValidf("empty Dir")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.Logger == nil:
		return errors.NotValidf("nil Logger")
	}
	if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		return errors.NotValidf("Listen %q (want host:port)", c.Listen)
	}
	return facade.ValidateApplicationName(c.Application)
}

// Run is the operator, until ctx is cancelled: then it says goodbye and returns
// nil. An error is about its files or its own port; a controller that is not
// there, or refuses it, is none.
func Run(ctx context.Context, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	settings, err := readSettings(config.Dir, config.Application)
	if err != nil {
		return err
	}
	client, err := newClient(settings.caCert)
	if err != nil {
		return err
	}
	server, err := newServer(ctx, config, settings.info)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.serve(); !errors.Is(err, http.ErrServerClosed) {
			cancel(errors.Annotate(err, "serving"))
		}
	}()
	defer func() {
		server.close()
		<-served
	}()
	config.Logger.Info("serving", "application", config.Application, "address", server.status.Address)

	c := &connection{config: config, settings: settings, client: client, status: server.status}
	c.keepConnected(ctx)
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// connection is the operator's to its controller.
type connection struct {
	config   Config
	settings settings
	client   *client
	status   api.Status
	// complaint is the last one that was logged: a controller that stays
	// away is worth one line.
	complaint string
}

// keepConnected logs in and tells the status, again and again, until ctx ends.
func (c *connection) keepConnected(ctx context.Context) {
	backoff := retry.ExpBackoff(minBackoff, maxBackoff, 2, true)
	var delay time.Duration
	for attempt := 0; ; attempt++ {
		s, err := c.login(ctx)
		if err == nil {
			c.config.Logger.Info("logged in", "controller", s.addr)
			delay, attempt, c.complaint = 0, 0, ""
			err = c.heartbeat(ctx, s)
		}
		if ctx.Err() != nil {
			c.leave(ctx, s)
			return
		}
		if err.Error() != c.complaint {
			c.config.Logger.Warn("no connection to the controller", "err", err)
			c.complaint = err.Error()
		}
		delay = backoff(delay, attempt)
		if !c.sleep(ctx, delay) {
			return
		}
	}
}

// login opens a session at the first address that lets us in.
func (c *connection) login(ctx context.Context) (session, error) {
	var last error
	for _, addr := range c.settings.addresses {
		for _, password := range c.settings.passwords {
			s, err := c.client.login(ctx, addr, c.settings.tag, password)
			if err == nil {
				return s, nil
			}
			last = err
			if !errors.Is(err, errors.Unauthorized) {
				break // the next password has no better chance there
			}
		}
	}
	return session{}, last
}

// heartbeat tells the status until that fails or ctx ends.
func (c *connection) heartbeat(ctx context.Context, s session) error {
	for {
		if err := c.client.tell(ctx, s, c.status); err != nil {
			return err
		}
		if !c.sleep(ctx, api.Heartbeat) {
			return ctx.Err()
		}
	}
}

// leave tells that the operator ends, if there is a session and while it is not
// much trouble. It is told although ctx has ended.
func (c *connection) leave(ctx context.Context, s session) {
	if s.token.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	if err := c.client.tell(ctx, s, api.Status{Status: api.Stopped}); err != nil {
		c.config.Logger.Debug("saying goodbye", "err", err)
	}
}

// sleep returns false when ctx ended first.
func (c *connection) sleep(ctx context.Context, d time.Duration) bool {
	timer := c.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.Chan():
		return true
	case <-ctx.Done():
		return false
	}
}
