package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/outside"
	"github.com/sutler-dev/sutler/observe/page"
)

// seen is an agent that can be seen from outside.
type seen struct {
	outside *outside.Outside
	address string // of the page, besides the socket; empty for none
	logger  *slog.Logger
}

// openOutside makes what the workers are seen by. The caller closes it after them.
func openOutside(name string, opts agentOptions) (*seen, error) {
	logger := opts.logger.With("worker", "introspection")
	o, err := outside.New(outside.Config{Title: "model " + name, Traces: opts.traces, Logger: logger})
	if err != nil {
		return nil, err
	}
	return &seen{o, opts.page, logger}, nil
}

func (s *seen) close() {
	if err := s.outside.Close(); err != nil {
		s.logger.Warn("spans are lost", "error", err)
	}
}

// serve has everything seen that there is to see, until what it returns is called.
// It does nothing for a nil seen.
func (s *seen) serve(ctx context.Context, dir string, reporter page.Reporter) (stop func() error, err error) {
	if s == nil {
		return func() error { return nil }, nil
	}
	server, err := s.outside.Serve(ctx, dir, s.address, reporter)
	if err != nil {
		return nil, err
	}
	s.logger.Debug("seen from outside", "socket", filepath.Join(dir, outside.SocketName))
	for _, url := range server.URLs() {
		s.logger.Info("the page is here", "url", url)
	}
	return func() error { return worker.Stop(server) }, nil
}
