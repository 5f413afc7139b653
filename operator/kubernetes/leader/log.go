package leader

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
)

// withLogger returns a context in which leaderelection, and the rest of
// client-go, log to the given logger, all of it at the debug level: what an
// agent's log should say is said by the worker, once and not every RetryPeriod.
func withLogger(ctx context.Context, logger *slog.Logger) context.Context {
	return logr.NewContext(ctx, logr.FromSlogHandler(hushed{logger.Handler()}))
}

// hushed handles records at the debug level, or at their own below it.
type hushed struct{ to slog.Handler }

// Enabled is part of slog.Handler.
func (h hushed) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, min(level, slog.LevelDebug))
}

// Handle is part of slog.Handler. logr does not ask before it hands over an
// error.
func (h hushed) Handle(ctx context.Context, record slog.Record) error {
	record.Level = min(record.Level, slog.LevelDebug)
	if !h.to.Enabled(ctx, record.Level) {
		return nil
	}
	return h.to.Handle(ctx, record)
}

// WithAttrs is part of slog.Handler.
func (h hushed) WithAttrs(attrs []slog.Attr) slog.Handler { return hushed{h.to.WithAttrs(attrs)} }

// WithGroup is part of slog.Handler.
func (h hushed) WithGroup(name string) slog.Handler { return hushed{h.to.WithGroup(name)} }
