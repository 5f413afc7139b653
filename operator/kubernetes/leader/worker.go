package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// ErrLost is the kind of end of a [Worker] that led and could not go on: the
// Lease was not renewed in time, or another holds it.
const ErrLost = errors.ConstError("leadership lost")

// stopTime is how long a worker that is killed takes at most to see its
// dependents stop and to release the Lease.
const stopTime = time.Second

// Worker stands for election, and leads once. It is a worker.Worker and a
// worker.Reporter; all its methods may be called from many goroutines at once.
type Worker struct {
	catacomb catacomb.Catacomb
	config   Config
	logger   *slog.Logger
	term     *Term

	// These are for the loop and what it calls.
	lease   *resourcelock.LeaseLock
	elector *leaderelection.LeaderElector
	stop    context.CancelFunc // of the election
	mayHold bool               // the Lease may have been written, whatever the answer

	mu       sync.Mutex // guards what follows
	record   resourcelock.LeaderElectionRecord
	trouble  trouble
	deadline *time.Timer // ends the term, once it has begun
	reason   error       // why the term ended, unless killed
}

// New starts a worker. It returns errors.NotValid, naming the field, for a
// config that does not validate. The caller owns the worker: Kill it, and Wait
// for its end.
func New(config Config) (*Worker, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "leader config")
	}
	config = config.withDefaults()
	w := &Worker{
		config: config,
		logger: config.Logger.With("lease", config.Namespace+"/"+config.Name),
		term:   newTerm(),
		lease: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.Namespace, Name: config.Name},
			Client:     config.Client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: config.Identity},
			Labels:     config.Labels,
		},
	}
	var err error
	w.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &lock{w.lease, w},
		LeaseDuration: config.LeaseDuration,
		RenewDeadline: config.RenewDeadline,
		RetryPeriod:   config.RetryPeriod,
		Name:          config.Name,
		// The lock knows sooner, and without another goroutine, when a term
		// begins and ends; and the release has to wait for the dependents.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, errors.Annotate(err, "leader election")
	}
	if err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: w.loop}); err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Kill is part of worker.Worker. The term ends before it returns.
func (w *Worker) Kill() {
	w.catacomb.Kill(nil)
	w.term.end()
}

// Wait is part of worker.Worker. It returns nil when the worker was killed, and
// an [ErrLost] when it led and could not go on.
func (w *Worker) Wait() error { return w.catacomb.Wait() }

// Term returns the worker's term, which may be to come, under way, or over.
func (w *Worker) Term() *Term { return w.term }

func (w *Worker) loop() error {
	defer w.term.end()
	ctx, cancel := context.WithCancel(w.catacomb.Context(withLogger(context.Background(), w.logger)))
	defer cancel()
	w.stop = cancel
	defer w.stopDeadline()

	w.elector.Run(ctx)
	select {
	case <-w.catacomb.Dying():
	default:
		return w.end(errors.New("election ended"))
	}
	// A write may have been under way. The second that this takes begins here,
	// since the election ends as soon as the client obeys its context.
	if w.mayHold {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := w.release(ctx); err != nil {
			w.logger.Warn("lease is left to expire", "error", err.Error())
		}
	}
	return w.catacomb.ErrDying()
}

// release gives the Lease up, if it is ours, when all that worked under it has
// stopped. Without that others would wait for it to expire; they still do when the
// context ends first.
func (w *Worker) release(ctx context.Context) error {
	select {
	case <-w.term.vacated:
	case <-ctx.Done():
		return errors.Errorf("%d dependents have not stopped", w.term.inside())
	}
	for {
		record, _, err := w.lease.Get(ctx)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return errors.Annotate(err, "reading lease")
		case record.HolderIdentity != w.config.Identity:
			return nil
		}
		// A Lease has to have a duration; without a holder it is free at once.
		now := metav1.Now()
		err = w.lease.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1,
			AcquireTime:          now,
			RenewTime:            now,
			LeaderTransitions:    record.LeaderTransitions,
		})
		switch {
		case err == nil:
			w.logger.Info("released lease")
			return nil
		case !apierrors.IsConflict(err): // a renewal was under way: look again
			return errors.Annotate(err, "releasing lease")
		}
	}
}

// wrote is told of each write of the Lease that succeeded, and when it was sent:
// others count from later than that.
func (w *Worker) wrote(record resourcelock.LeaderElectionRecord, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = record
	left := w.config.RenewDeadline - time.Since(sent)
	switch {
	case w.term.begin():
		w.deadline = time.AfterFunc(left, w.notRenewed)
		w.logger.Info("leading", "identity", w.config.Identity, "transitions", record.LeaderTransitions)
	case w.deadline != nil:
		w.deadline.Reset(left)
	}
}

// read is told of what the Lease held each time that it was read.
func (w *Worker) read(record resourcelock.LeaderElectionRecord) {
	w.mu.Lock()
	before := w.record.HolderIdentity
	w.record = record
	w.mu.Unlock()
	holder := record.HolderIdentity
	switch {
	case holder == w.config.Identity:
	case w.term.Leading():
		// leaderelection would go on to the deadline.
		_ = w.end(errors.Errorf("lease is held by %q", holder))
	case holder != before && holder != "":
		w.logger.Info("another agent leads", "holder", holder)
	}
}

// notRenewed ends the term at its deadline. Whatever hangs meanwhile, dependents
// learn of that in time.
func (w *Worker) notRenewed() {
	w.mu.Lock()
	err := w.trouble.err
	w.mu.Unlock()
	if err == nil {
		err = errors.New("no answer")
	}
	_ = w.end(errors.Annotatef(err, "not renewed for %v", w.config.RenewDeadline))
}

// end ends the term, and the election, and returns the reason: the one that it is
// given, as an [ErrLost], or that of an earlier call.
func (w *Worker) end(why error) error {
	why = errors.Annotatef(why, "leading by lease %s/%s", w.config.Namespace, w.config.Name)
	return w.fail(errors.WithType(why, ErrLost))
}

// fail is end with a reason that stays as it is.
func (w *Worker) fail(reason error) error {
	w.mu.Lock()
	first := w.reason == nil && !closed(w.term.over)
	if first {
		w.reason = reason
	}
	reason = w.reason
	w.mu.Unlock()
	w.term.end()
	w.stop()
	if first {
		w.logger.Warn("election ended", "error", reason.Error())
	}
	return reason
}

func (w *Worker) stopDeadline() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deadline != nil {
		w.deadline.Stop()
	}
}
