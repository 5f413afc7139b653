package provisioner

import (
	"context"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/batch"
	"github.com/sutler-dev/sutler/operator"
)

// deadline makes the calls of one pass, each with the deadline of
// Config.CallTimeout, all with one context: a call that times out ends its
// pass, so what the timer cancels need not live on. To make a context and a
// timer for each call would cost more than everything else in a settled pass.
type deadline struct {
	w      *Worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  clock.Timer
}

// errCallTimeout is why the context of a call that took too long was cancelled.
const errCallTimeout = errors.ConstError("deadline of the call passed")

func (w *Worker) newDeadline(parent context.Context) *deadline {
	ctx, cancel := context.WithCancelCause(parent)
	d := &deadline{w: w, ctx: ctx, cancel: cancel}
	d.timer = w.config.Clock.AfterFunc(w.config.CallTimeout, func() { cancel(errCallTimeout) })
	return d
}

// close releases what the calls used.
func (d *deadline) close() {
	d.timer.Stop()
	d.cancel(nil)
}

// begin gives the next call its full time.
func (d *deadline) begin() context.Context {
	d.timer.Reset(d.w.config.CallTimeout)
	return d.ctx
}

// end says what became of a call.
func (d *deadline) end(err error) error {
	if err == nil || context.Cause(d.ctx) != errCallTimeout {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errCallTimeout) {
		return errors.WithType(errors.Errorf("no answer within %s", d.w.config.CallTimeout), errors.Timeout)
	}
	return err
}

// endFacade is end for a call of the facade, whose connection may be lost.
func (d *deadline) endFacade(err error) error {
	if err = d.end(err); err != nil && !d.w.isDying() && d.w.config.IsFatal(err) {
		d.w.catacomb.Kill(errors.Annotate(err, "talking to the controller"))
	}
	return err
}

func (d *deadline) life(app string) (facade.Life, error) {
	life, err := d.w.config.Facade.Life(d.begin(), app)
	return life, d.endFacade(err)
}

func (d *deadline) charmInfo(app string) (facade.CharmInfo, error) {
	info, err := d.w.config.Facade.CharmInfo(d.begin(), app)
	return info, d.endFacade(err)
}

func (d *deadline) provisioningInfo(app string) (facade.OperatorProvisioningInfo, error) {
	info, err := d.w.config.Facade.OperatorProvisioningInfo(d.begin(), app)
	return info, d.endFacade(err)
}

func (d *deadline) issueCertificate(app string) (facade.OperatorCertificate, error) {
	cert, err := d.w.config.Facade.IssueOperatorCertificate(d.begin(), app)
	return cert, d.endFacade(err)
}

// info and setPassword go by batches, which have deadlines of their own: a
// caller may have to wait for the batch under way before its own begins.

func (d *deadline) info(bulk *batch.Batcher[string, facade.ApplicationInfo], app string) (facade.ApplicationInfo, error) {
	d.timer.Reset(3 * d.w.config.CallTimeout)
	info, err := bulk.Do(d.ctx, app)
	return info, d.endFacade(err)
}

func (d *deadline) setPassword(password facade.ApplicationPassword) error {
	d.timer.Reset(3 * d.w.config.CallTimeout)
	_, err := d.w.passwords.Do(d.ctx, password)
	return d.endFacade(err)
}

func (d *deadline) operatorExists(app string) (operator.State, error) {
	state, err := d.w.config.OperatorManager.OperatorExists(d.begin(), app)
	return state, d.end(err)
}

func (d *deadline) operator(app string) (*operator.Operator, error) {
	op, err := d.w.config.OperatorManager.Operator(d.begin(), app)
	return op, d.end(err)
}

func (d *deadline) glanceOperator(glancer operator.Glancer, app string) (*operator.Operator, error) {
	op, err := glancer.GlanceOperator(d.begin(), app)
	return op, d.end(err)
}

func (d *deadline) keepOperator(glancer operator.Glancer, app, agentPath string, cfg *operator.Config) error {
	return d.end(glancer.KeepOperator(d.begin(), app, agentPath, cfg))
}

func (d *deadline) stageOperator(stager operator.Stager, app, agentPath string, cfg *operator.Config) (string, error) {
	generation, err := stager.StageOperator(d.begin(), app, agentPath, cfg)
	return generation, d.end(err)
}

func (d *deadline) ensureOperator(app, agentPath string, cfg *operator.Config) error {
	return d.end(d.w.config.OperatorManager.EnsureOperator(d.begin(), app, agentPath, cfg))
}

func (d *deadline) deleteOperator(app string) error {
	return d.end(d.w.config.OperatorManager.DeleteOperator(d.begin(), app))
}
