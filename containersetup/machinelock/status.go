package machinelock

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// Status tells who has the lock, in whatever process, and does not wait for it.
// Held comes from the kernel; the rest is what the holder said, and is zero when
// that cannot be read. To look at a lock that is free it is held for an instant,
// in which an Acquire of another process may find it taken, and comes back after
// its Config.Poll.
func (l *Lock) Status(ctx context.Context) (container.LockStatus, error) {
	if err := ctx.Err(); err != nil {
		return container.LockStatus{}, errors.Annotatef(err, "status of machine lock %s", l.path)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return l.held.status, nil
	}
	s, err := l.probe()
	return s, errors.Annotatef(err, "status of machine lock %s", l.path)
}

// probe looks at the file.
func (l *Lock) probe() (container.LockStatus, error) {
	f, err := l.open(os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return container.LockStatus{}, nil
	}
	if err != nil {
		return container.LockStatus{}, err
	}
	// Shared, so that those who only look do not see each other.
	free, err := tryLock(f, true)
	switch {
	case err != nil:
		_ = f.Close()
		return container.LockStatus{}, err
	case free:
		unlock(f)
		return container.LockStatus{}, nil
	}
	defer func() { _ = f.Close() }()
	return content(f), nil
}

// Report describes the lock for people: path; held; of a holder that is known
// holder, reason, pid, since (RFC 3339) and age; waiting, how many goroutines of
// this process are in the queue behind the one that has or tries for it; error,
// when the lock cannot be looked at.
func (l *Lock) Report() map[string]any {
	report := map[string]any{"path": l.path, "waiting": l.turns.queued()}
	s, err := l.Status(context.Background())
	if err != nil {
		report["error"] = err.Error()
		return report
	}
	report["held"] = s.Held
	if s.PID != 0 {
		report["holder"] = s.Holder.Worker
		report["reason"] = s.Holder.Reason
		report["pid"] = s.PID
		report["since"] = s.Since.Format(time.RFC3339)
		// Wall clocks of two processes: the age of what another one
		// holds may be off, but not negative.
		report["age"] = max(0, l.clock.Now().Sub(s.Since)).Round(time.Millisecond).String()
	}
	return report
}

// who names a holder in a sentence.
func who(s container.LockStatus) string {
	if s.PID == 0 {
		return "a holder that is not known"
	}
	return fmt.Sprintf("%s (%s), process %d, since %s",
		s.Holder.Worker, s.Holder.Reason, s.PID, s.Since.UTC().Format(time.RFC3339))
}

// attrs names a holder in the log.
func attrs(s container.LockStatus) []any {
	return []any{
		slog.String("holder", s.Holder.Worker),
		slog.String("reason", s.Holder.Reason),
		slog.Int("pid", s.PID),
		slog.Time("since", s.Since),
	}
}
