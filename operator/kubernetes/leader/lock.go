package leader

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/juju/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// What can be done with a Lease, for logs and reports.
const (
	reading  = "reading lease"
	creating = "creating lease"
	updating = "updating lease"
)

// lock is the Lease as leaderelection sees it. It gives each call a time limit,
// and has the worker know at once what came of it.
type lock struct {
	*resourcelock.LeaseLock
	w *Worker
}

// Get is part of resourcelock.Interface.
func (l *lock) Get(ctx context.Context) (record *resourcelock.LeaderElectionRecord, raw []byte, _ error) {
	err := l.w.call(ctx, reading, func(ctx context.Context) (err error) {
		record, raw, err = l.LeaseLock.Get(ctx)
		return err
	})
	if err == nil {
		l.w.read(*record)
	}
	return record, raw, err
}

// Create is part of resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, creating, record, l.LeaseLock.Create)
}

// Update is part of resourcelock.Interface.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, updating, record, l.LeaseLock.Update)
}

func (l *lock) write(
	ctx context.Context, what string, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	sent := time.Now()
	l.w.mayHold = true // an answer may be lost
	err := l.w.call(ctx, what, func(ctx context.Context) error { return write(ctx, record) })
	if err == nil {
		l.w.wrote(record, sent)
	}
	return err
}

// call does one call, for half of the renewal deadline at most, so that one that
// hangs does not cost the Lease. leaderelection handles what it returns by its
// API kind, so that is as it was.
func (w *Worker) call(ctx context.Context, what string, do func(context.Context) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err // leaderelection asks once more after a failed renewal
	}
	limited, cancel := context.WithTimeout(ctx, w.config.RenewDeadline/2)
	defer cancel()
	defer func() {
		// leaderelection would log this at length and panic again.
		if value := recover(); value != nil {
			err = errors.Errorf("%s: panic: %v", what, value)
			w.logger.Error("panic in client", "error", err.Error(), "stack", string(debug.Stack()))
			_ = w.fail(err)
		}
	}()
	err = do(limited)
	if ctx.Err() == nil { // else the worker ends, which is no trouble
		w.note(what, err)
	}
	return err
}

// trouble is the last error with the Lease, if it has not been got over.
type trouble struct {
	what string // reading, creating or updating
	err  error  // annotated with it
}

// note keeps what came of a call, and tells of trouble when it begins or changes;
// between that, only the report does. The same kind of call has to succeed for it
// to be over, or any write.
func (w *Worker) note(what string, err error) {
	w.mu.Lock()
	before := w.trouble
	ok := err == nil || expected(what, err)
	switch {
	case !ok:
		w.trouble = trouble{what, errors.Annotate(err, what)}
	case what == before.what || what != reading && err == nil:
		w.trouble = trouble{}
	}
	now := w.trouble
	w.mu.Unlock()
	switch {
	case now.err == nil && before.err != nil:
		w.logger.Info("lease is in reach again", "after", what)
	case !ok && (before.err == nil || apierrors.ReasonForError(err) != apierrors.ReasonForError(before.err)):
		w.logger.Warn("trouble with lease", "error", now.err.Error())
	}
}

// expected is what an election brings with it: the Lease is not there yet or has
// been deleted, or another agent was faster.
func expected(what string, err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonNotFound: // of creating, it is the namespace
		return what != creating
	case metav1.StatusReasonAlreadyExists:
		return what == creating
	case metav1.StatusReasonConflict:
		return what == updating
	}
	return false
}
