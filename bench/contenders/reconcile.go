package contenders

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// Reconciler is what all but this project's own contender do about one
// application.
type Reconciler struct{ world World }

// NewReconciler returns one, or errors.NotValid for a world that lacks
// something.
func NewReconciler(w World) (*Reconciler, error) {
	w, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reconciler{w}, nil
}

// Result says what a pass that did not fail has come to.
type Result struct {
	// After is when to look again; zero for not without an event.
	After time.Duration
	// Terminating tells that an operator which is being deleted is waited
	// for.
	Terminating bool
	// Gone tells that neither the application nor its operator is there.
	Gone bool
}

// Reconcile looks at the application and makes its operator be as it should.
// An error is to be tried again with back-off.
func (r *Reconciler) Reconcile(ctx context.Context, app string) (Result, error) {
	life, err := call(ctx, r, func(ctx context.Context) (facade.Life, error) { return r.world.Facade.Life(ctx, app) })
	switch {
	case errors.Is(err, errors.NotFound):
		return r.remove(ctx, app)
	case err != nil:
		return Result{}, errors.Annotate(err, "reading life")
	case life == facade.Dying:
		return Result{}, nil
	}
	charm, err := call(ctx, r, func(ctx context.Context) (facade.CharmInfo, error) { return r.world.Facade.CharmInfo(ctx, app) })
	switch {
	case err != nil:
		return Result{}, errors.Annotate(err, "reading charm info")
	case charm.Format() >= 2:
		return Result{}, nil
	case life == facade.Dead:
		return r.remove(ctx, app)
	}
	return r.ensure(ctx, app)
}

// ensure is Reconcile for an application that lives.
func (r *Reconciler) ensure(ctx context.Context, app string) (Result, error) {
	state, err := call(ctx, r, func(ctx context.Context) (operator.State, error) { return r.world.Manager.OperatorExists(ctx, app) })
	if err != nil {
		return Result{}, errors.Annotate(err, "looking for the operator")
	}
	if state.Terminating {
		return Result{After: terminationPoll, Terminating: true}, nil
	}
	stored := &operator.Config{}
	op, err := call(ctx, r, func(ctx context.Context) (*operator.Operator, error) { return r.world.Manager.Operator(ctx, app) })
	switch {
	case err == nil:
		stored = op.Config
	case !errors.Is(err, errors.NotFound):
		return Result{}, errors.Annotate(err, "reading the operator")
	}
	info, err := call(ctx, r, func(ctx context.Context) (facade.OperatorProvisioningInfo, error) {
		return r.world.Facade.OperatorProvisioningInfo(ctx, app)
	})
	if err != nil {
		return Result{}, errors.Annotate(err, "reading provisioning info")
	}
	operatorInfo, renewAt, err := r.certificate(ctx, app, stored.OperatorInfo)
	if err != nil {
		return Result{}, err
	}

	// A password that is stored stays. Where the operator does not fully
	// exist, its controller may not have heard of it.
	conf, _ := agentconf.Parse([]byte(stored.AgentConf.Reveal()))
	if conf == nil {
		conf = &agentconf.Config{}
	}
	password := conf.Password()
	if password.IsZero() {
		password = facade.NewSecret(rand.Text())
	}
	if !state.Exists || conf.Password().IsZero() {
		if err := r.tell(ctx, app, password); err != nil {
			return Result{}, err
		}
	}
	agentConf, err := r.render(app, conf, &info, password)
	if err != nil {
		return Result{}, err
	}
	_, err = call(ctx, r, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.world.Manager.EnsureOperator(ctx, app, r.world.Agent.DataDir(), &operator.Config{
			ImageDetails: info.ImageDetails, BaseImageDetails: info.BaseImageDetails, Version: info.Version,
			CharmStorage: info.CharmStorage, ResourceTags: info.Tags,
			AgentConf: agentConf, OperatorInfo: operatorInfo, Generation: stored.Generation,
		})
	})
	return Result{After: time.Until(renewAt)}, errors.Annotate(err, "ensuring the operator")
}

// certificate returns an operator.yaml whose certificate is good, the stored one
// if it is, and when to renew it.
func (r *Reconciler) certificate(ctx context.Context, app string, stored facade.Secret) (facade.Secret, time.Time, error) {
	caCert := r.world.Agent.CACert()
	if info, err := operator.ParseInfo(stored); err == nil {
		validity, err := operator.CheckCertificate(info, app, caCert, time.Now())
		if err == nil && time.Now().Before(validity.RenewAt) {
			return stored, validity.RenewAt, nil
		}
	}
	cert, err := call(ctx, r, func(ctx context.Context) (facade.OperatorCertificate, error) {
		return r.world.Facade.IssueOperatorCertificate(ctx, app)
	})
	if err != nil {
		return facade.Secret{}, time.Time{}, errors.Annotate(err, "issuing a certificate")
	}
	info := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}
	validity, err := operator.CheckCertificate(info, app, caCert, time.Now())
	if err != nil {
		return facade.Secret{}, time.Time{}, errors.Annotate(err, "issuing a certificate")
	}
	data, err := info.Marshal()
	return data, validity.RenewAt, errors.Annotate(err, "rendering operator.yaml")
}

// tell makes the controller accept the password.
func (r *Reconciler) tell(ctx context.Context, app string, password facade.Secret) error {
	results, err := call(ctx, r, func(ctx context.Context) ([]error, error) {
		return r.world.Facade.SetPasswords(ctx, []facade.ApplicationPassword{{Name: app, Password: password}})
	})
	switch {
	case err == nil && len(results) != 1:
		err = errors.NotValidf("%d answers to one password", len(results))
	case err == nil:
		err = results[0]
	}
	return errors.Annotate(err, "setting the password")
}

// render returns the operator's agent.conf: what it must say now, on top of what
// it held beyond that.
func (r *Reconciler) render(app string, conf *agentconf.Config, info *facade.OperatorProvisioningInfo, password facade.Secret) (facade.Secret, error) {
	agent := r.world.Agent
	conf.Tag = agentconf.TagForApplication(app)
	conf.DataDir, conf.LogDir = agent.DataDir(), agent.LogDir()
	conf.UpgradedToVersion = info.Version
	conf.CACert = agent.CACert()
	conf.ControllerUUID, conf.ModelUUID = agent.ControllerUUID(), r.world.ModelUUID
	conf.APIAddresses = info.APIAddresses
	conf.APIPassword, conf.OldPassword = facade.Secret{}, password
	data, err := conf.Render()
	return facade.NewSecret(string(data)), errors.Annotate(err, "rendering agent.conf")
}

// remove is Reconcile for an application that is dead or gone.
func (r *Reconciler) remove(ctx context.Context, app string) (Result, error) {
	_, err := call(ctx, r, func(ctx context.Context) (*operator.Operator, error) { return r.world.Manager.Operator(ctx, app) })
	switch {
	case errors.Is(err, errors.NotFound):
		return Result{Gone: true}, nil
	case err != nil:
		return Result{}, errors.Annotate(err, "reading the operator")
	}
	_, err = call(ctx, r, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.world.Manager.DeleteOperator(ctx, app)
	})
	// Looked at until it is gone.
	return Result{After: terminationPoll}, errors.Annotate(err, "deleting the operator")
}

// call makes a call with its deadline.
func call[T any](ctx context.Context, r *Reconciler, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, r.world.CallTimeout)
	defer cancel()
	return f(ctx)
}
