package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
	"github.com/sutler-dev/sutler/facade"
)

// Controller is a connection with a controller that somebody serves. It is a
// worker.
type Controller struct {
	catacomb catacomb.Catacomb
	http     http.Client
	greeting io.ReadCloser
	id       Identity
}

var _ Source = (*Controller)(nil)

// Dial connects with the controller that is served in dir. It returns
// errors.NotFound when none is. The caller owns the worker.
func Dial(ctx context.Context, dir string) (*Controller, error) {
	c := &Controller{http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, dir, socketName)
		},
	}}}
	// The greeting outlives the call.
	body, err := c.post(context.WithoutCancel(ctx), hello, nil)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(body)
	if err := dec.Decode(&c.id); err != nil {
		_ = body.Close()
		return nil, errors.WithType(err, facade.ErrConnectionLost)
	}
	c.greeting = body
	if err := catacomb.Invoke(catacomb.Plan{Site: &c.catacomb, Work: c.loop}); err != nil {
		_ = body.Close()
		return nil, errors.Trace(err)
	}
	return c, nil
}

// Kill is part of worker.Worker.
func (c *Controller) Kill() { c.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (c *Controller) Wait() error { return c.catacomb.Wait() }

// ControllerUUID is the controller's UUID.
func (c *Controller) ControllerUUID() string { return c.id.ControllerUUID }

// CACert is the certificate of the controller's CA, in PEM, when the connection was
// made: a controller has another only after it was started anew.
func (c *Controller) CACert() string { return c.id.CACert }

// loop ends when the greeting does.
func (c *Controller) loop() error {
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		_, _ = io.Copy(io.Discard, c.greeting)
	}()
	defer func() {
		_ = c.greeting.Close()
		<-lost
		c.http.CloseIdleConnections()
	}()
	select {
	case <-c.catacomb.Dying():
		return c.catacomb.ErrDying()
	case <-lost:
		return errors.Trace(facade.ErrConnectionLost)
	}
}

// post asks, and returns the answer, which is the caller's to close.
func (c *Controller) post(ctx context.Context, name string, in any) (io.ReadCloser, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, errors.Trace(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://controller/"+name, bytes.NewReader(data))
	if err != nil {
		return nil, errors.Trace(err)
	}
	resp, err := c.http.Do(req)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errors.NotFound):
		return nil, errors.WithType(errors.NotFoundf("running controller"), facade.ErrConnectionLost)
	case err != nil:
		return nil, errors.WithType(err, facade.ErrConnectionLost)
	case resp.StatusCode == http.StatusOK:
		return resp.Body, nil
	}
	defer resp.Body.Close()
	var refusal wireError
	if err := json.NewDecoder(resp.Body).Decode(&refusal); err != nil {
		return nil, errors.Errorf("controller answered %s", resp.Status)
	}
	return nil, refusal.err()
}

// ask is post for a question that has one answer.
func ask[Out any](ctx context.Context, c *Controller, name string, in any) (out Out, err error) {
	body, err := c.post(ctx, name, in)
	if err != nil {
		return out, err
	}
	defer body.Close()
	err = json.NewDecoder(body).Decode(&out)
	switch {
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case err != nil:
		return out, errors.WithType(err, facade.ErrConnectionLost)
	}
	return out, nil
}

// Life is part of facade.Applications.
func (c *Controller) Life(ctx context.Context, app string) (facade.Life, error) {
	return ask[facade.Life](ctx, c, life, app)
}

// CharmInfo is part of facade.Applications.
func (c *Controller) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	return ask[facade.CharmInfo](ctx, c, charm, app)
}

// OperatorProvisioningInfo is part of facade.Applications.
func (c *Controller) OperatorProvisioningInfo(ctx context.Context, app string) (facade.OperatorProvisioningInfo, error) {
	out, err := ask[wireInfo](ctx, c, provisioningInfo, app)
	return out.info(), err
}

// IssueOperatorCertificate is part of facade.Applications.
func (c *Controller) IssueOperatorCertificate(ctx context.Context, app string) (facade.OperatorCertificate, error) {
	out, err := ask[wireCertificate](ctx, c, issueCertificate, app)
	return facade.OperatorCertificate{
		CACert: out.CACert, Cert: out.Cert, PrivateKey: facade.NewSecret(out.PrivateKey),
	}, err
}

// SetPasswords is part of facade.Applications.
func (c *Controller) SetPasswords(ctx context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	in := make([]wirePassword, len(passwords))
	for i, p := range passwords {
		in[i] = wirePassword{p.Name, p.Password.Reveal()}
	}
	out, err := ask[[]*wireError](ctx, c, setPasswords, in)
	if err != nil {
		return nil, err
	}
	results := make([]error, len(out))
	for i, e := range out {
		results[i] = e.err()
	}
	return results, nil
}

// ApplicationsInfo is part of facade.BulkApplications.
func (c *Controller) ApplicationsInfo(ctx context.Context, names []string) ([]facade.ApplicationInfo, error) {
	out, err := ask[[]wireApplication](ctx, c, applicationsInfo, names)
	if err != nil {
		return nil, err
	}
	infos := make([]facade.ApplicationInfo, len(out))
	for i, a := range out {
		infos[i] = facade.ApplicationInfo{Name: a.Name, Life: a.Life, Format: a.Format, FormatErr: a.FormatErr.err(), Err: a.Err.err()}
	}
	return infos, nil
}

// SetProvisioningStatus is part of facade.StatusSetter.
func (c *Controller) SetProvisioningStatus(ctx context.Context, app string, status facade.ProvisioningStatus, message string) error {
	_, err := ask[struct{}](ctx, c, setStatus, wireStatus{app, status, message})
	return err
}

// WatchApplications is part of facade.Applications.
func (c *Controller) WatchApplications(ctx context.Context) (facade.StringsWatcher, error) {
	return c.watch(ctx, watchApplications)
}

// WatchProvisioning is part of facade.ProvisioningWatcher.
func (c *Controller) WatchProvisioning(ctx context.Context) (facade.StringsWatcher, error) {
	return c.watch(ctx, watchProvisioning)
}
