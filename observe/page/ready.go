package page

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
)

func (p *Page) serveReady(w http.ResponseWriter, r *http.Request) {
	reasons := p.unready(r.Context())
	if len(reasons) > 0 {
		p.refuse(w, r, http.StatusServiceUnavailable, strings.Join(reasons, "\n"))
		return
	}
	p.answer(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ready\n"))
}

// unready returns why the agent is not ready, one line each.
func (p *Page) unready(ctx context.Context) (reasons []string) {
	live, ended, expected := p.workers.list()
	for _, k := range expected {
		has := func(n name) bool { return n.kind == k }
		if !slices.ContainsFunc(live, func(s *shown) bool { return has(s.name) }) &&
			!slices.ContainsFunc(ended, func(g gone) bool { return has(g.name) }) {
			reasons = append(reasons, fmt.Sprintf("no %s has started", k))
		}
	}
	for _, s := range live {
		if why := s.unready(); why != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", s.name, why))
		}
	}
	for _, g := range ended {
		reasons = append(reasons, fmt.Sprintf("%s: ended at %s", g.name, stamp(g.at)))
	}
	if why := p.askReady(ctx); why != "" {
		reasons = append(reasons, oneLine(why))
	}
	return reasons
}

// askReady returns why all else is not ready, if it is not.
func (p *Page) askReady(ctx context.Context) string {
	if p.config.Ready == nil {
		return ""
	}
	why, err := p.ready.ask(ctx, p.config.Clock, p.config.ReportTimeout, func() (string, error) {
		// Not the asker's context: others wait for the same answer.
		ctx, cancel := context.WithTimeout(context.Background(), p.config.ReportTimeout)
		defer cancel()
		if err := p.config.Ready(ctx); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	if err != nil {
		var panicked panicError
		if errors.As(err, &panicked) {
			p.panicked(ctx, "ready", panicked.value)
		}
		return "asking whether all else is ready: " + err.Error()
	}
	return why
}

// unready says what the worker waits for before it can do its work, if anything.
func (s *shown) unready() string {
	events := map[string]int{}
	switch {
	case s.operators != nil:
		for watcher, w := range s.operators.Status().Watchers {
			events[watcher] = w.Events
		}
	case s.containers != nil:
		for watcher, w := range s.containers.Status().Watchers {
			events[watcher] = w.Events
		}
	default:
		return unreadySetup(s.setup.Status())
	}
	if len(events) == 0 {
		return "its watchers have not started"
	}
	var silent []string
	for watcher, n := range events {
		if n == 0 {
			silent = append(silent, watcher)
		}
	}
	if len(silent) == 0 {
		return ""
	}
	slices.Sort(silent)
	return "no baseline yet of " + strings.Join(silent, ", ")
}

func unreadySetup(status containersetup.Status) string {
	switch {
	case status.Err != "":
		return "it is not known what the machine supports: " + oneLine(status.Err)
	case status.Watching:
		return ""
	}
	for _, t := range status.Types {
		if t.Phase != containersetup.PhaseReady {
			return "its watcher has not started"
		}
	}
	if len(status.Types) == 0 {
		return "its watcher has not started"
	}
	return ""
}
