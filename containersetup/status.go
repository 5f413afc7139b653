package containersetup

import (
	"maps"
	"time"
)

// Status is the worker in figures, for gauges. [Worker.Report] says the same and
// more in words.
type Status struct {
	// MachineID is that of the Config.
	MachineID string
	// Types has each type that the machine supports or that was asked for and
	// has a back end.
	Types map[ContainerType]TypeStatus
	// Watching tells whether new types are still waited for.
	Watching bool
	// Refused counts the containers that cannot be had here, and Skipped the
	// ids that are not this machine's, up to a thousand.
	Refused, Skipped int
	// Err is why it is not known what the machine supports.
	Err string
}

// TypeStatus is how far the preparation of one type has come.
type TypeStatus struct {
	Phase Phase
	// Since is when the phase began; zero if nobody has asked for the type.
	Since time.Time
	// Waiting counts the containers that wait for the type; 0 once it is ready.
	Waiting int
	// Attempts is how many attempts at the phase failed in a row.
	Attempts int
	// Next is when the next attempt is; zero while it is under way.
	Next time.Time
	// LockWait is for how long the machine lock has been waited for, in all.
	LockWait time.Duration
	// Err is why the last attempt failed, or why the type was refused.
	Err string
}

// Status returns the worker in figures. It may be called at any time, also after
// the end.
func (w *Worker) Status() Status {
	now := w.config.Clock.Now()
	w.mu.Lock()
	setups := maps.Clone(w.setups)
	status := Status{
		MachineID: w.config.MachineID,
		Types:     make(map[ContainerType]TypeStatus),
		Watching:  w.watching,
		Refused:   len(w.refused),
		Skipped:   len(w.skipped),
		Err:       w.lastError,
	}
	for _, t := range w.supported {
		status.Types[t] = TypeStatus{Phase: PhaseIdle}
	}
	w.mu.Unlock()
	for t, s := range setups {
		status.Types[t] = s.typeStatus(now)
	}
	return status
}

func (s *setup) typeStatus(now time.Time) TypeStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.status.lockWait
	if !s.status.lockSince.IsZero() {
		wait += now.Sub(s.status.lockSince)
	}
	return TypeStatus{
		Phase:    s.status.phase,
		Since:    s.status.since,
		Waiting:  s.status.waiting,
		Attempts: s.status.attempts,
		Next:     s.status.next,
		LockWait: wait,
		Err:      s.status.lastError,
	}
}

// report describes the type for people.
func (s *setup) report(now time.Time) map[string]any {
	status := s.typeStatus(now)
	out := map[string]any{
		"phase": string(status.Phase),
		"since": status.Since.UTC().Format(time.RFC3339),
	}
	if status.Waiting > 0 {
		out["waiting"] = status.Waiting
	}
	if status.Attempts > 0 {
		out["attempts"] = status.Attempts
	}
	if status.Err != "" {
		out["error"] = status.Err
	}
	if !status.Next.IsZero() {
		out["next"] = status.Next.UTC().Format(time.RFC3339)
	}
	if status.LockWait > 0 {
		out["lock-wait"] = status.LockWait.Round(time.Millisecond).String()
	}
	return out
}
