package page

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// Defaults of the optional fields of [Config].
const (
	DefaultTitle         = "sutler"
	DefaultReportTimeout = 2 * time.Second
)

// Reporter is what has a report, as a dependency engine does; it is the same as
// worker.Reporter.
type Reporter interface {
	Report() map[string]any
}

// Config is what a [Page] works with. Clock is required; the zero value of any
// other field stands for its default.
type Config struct {
	// Clock is where time comes from.
	Clock clock.Clock
	// Reporter has the report of the agent as a whole, such as the whole
	// dependency engine's; nil for none. The workers' own are shown anyway.
	Reporter Reporter
	// Metrics answers /metrics; nil for nobody.
	Metrics http.Handler
	// Ready returns why the agent is not ready for other reasons than the
	// workers', or nil. It gets ReportTimeout, and like a reporter is not
	// called again while it is out.
	Ready func(ctx context.Context) error
	// Title is what the page is called, for whoever has several; "sutler" by
	// default.
	Title string
	// Hosts are names, without ports, that may stand in the Host header of
	// requests over TCP, besides addresses and localhost.
	Hosts []string
	// ReportTimeout is how long a reporter may take; 2 s by default.
	ReportTimeout time.Duration
	// Logger hears of what panicked; nil discards.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config) Validate() error {
	switch {
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.ReportTimeout < 0:
		return errors.NotValidf("negative ReportTimeout")
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, "/:* \t") {
			return errors.NotValidf("%q in Hosts (want a name without a port)", host)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Title == "" {
		c.Title = DefaultTitle
	}
	if c.ReportTimeout == 0 {
		c.ReportTimeout = DefaultReportTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
