// Package enginelog lets worker.Runner and dependency.Engine, of
// github.com/juju/worker/v3, log to a log/slog.Logger. They ask for a logger
// with a method per level and printf-style arguments; [New] returns one.
//
// # Levels
//
// Debugf, Infof, Warningf and Errorf log at the slog level of that name, and
// Tracef at [LevelTrace], below debug. The engine traces a lot; a message is put
// together only when its level is enabled.
//
// # Concurrency
//
// A [Logger] is as safe for many goroutines as the handler of its slog.Logger,
// and keeps nothing itself.
package enginelog
