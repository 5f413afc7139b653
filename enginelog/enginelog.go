package enginelog

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// LevelTrace is the level of Tracef.
const LevelTrace = slog.LevelDebug - 4

// Logger is a worker.Logger and a dependency.Logger. Make one with [New]. Each
// of its methods logs one message, formatted as by fmt.Sprintf, without
// attributes of its own.
type Logger struct {
	to *slog.Logger
}

// New returns a Logger that logs to the given one, with the attributes that it
// has; nil discards everything.
func New(to *slog.Logger) *Logger {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return &Logger{to: to}
}

// Tracef logs at [LevelTrace].
func (l *Logger) Tracef(format string, args ...any) { l.log(LevelTrace, format, args) }

// Debugf logs at slog.LevelDebug.
func (l *Logger) Debugf(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

// Infof logs at slog.LevelInfo.
func (l *Logger) Infof(format string, args ...any) { l.log(slog.LevelInfo, format, args) }

// Warningf logs at slog.LevelWarn.
func (l *Logger) Warningf(format string, args ...any) { l.log(slog.LevelWarn, format, args) }

// Errorf logs at slog.LevelError.
func (l *Logger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }

// log formats only what is enabled. It goes to the handler itself, so that the
// source of the record is the caller of Tracef and so on, and not this file.
func (l *Logger) log(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, level) {
		return
	}
	var pc [1]uintptr
	runtime.Callers(3, pc[:]) // Callers, log, the level's method
	r := slog.NewRecord(time.Now(), level, fmt.Sprintf(format, args...), pc[0])
	// As with slog itself, there is nobody to tell of a handler's error.
	_ = l.to.Handler().Handle(ctx, r)
}
