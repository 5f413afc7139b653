package guides

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// Conn is the agent's connection to its controller. Yours has other methods;
// what matters is that there are these two kinds.
type Conn interface {
	// Call sends a request and waits for the answer, or for the end of ctx.
	// What the controller refuses is a *RemoteError; every call on a
	// connection that is gone is ErrConnClosed.
	Call(ctx context.Context, method string, args, answer any) error
	// Subscribe has events sent that happen from now on.
	Subscribe(ctx context.Context, topic string) (Subscription, error)
}

// Subscription is what Subscribe returns.
type Subscription interface {
	// Events has the names of applications. The channel is closed when the
	// connection is gone.
	Events() <-chan []string
	Close()
}

// ErrConnClosed is the error of a connection that is gone.
const ErrConnClosed = errors.ConstError("connection closed")

// RemoteError is what the controller answers instead of an answer.
type RemoteError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *RemoteError) Error() string { return e.Message }

// Facade is a facade.Applications over a connection.
type Facade struct{ conn Conn }

var _ facade.Applications = (*Facade)(nil)

// NewFacade returns a facade over a connection, which stays its caller's.
func NewFacade(conn Conn) *Facade { return &Facade{conn: conn} }

func (f *Facade) call(ctx context.Context, method string, args, answer any) error {
	return withKind(f.conn.Call(ctx, method, args, answer))
}

// withKind gives an error of the wire its meaning. What has none is left as it
// is: the trouble of the application that was asked about.
func withKind(err error) error {
	if errors.Is(err, ErrConnClosed) {
		return errors.WithType(err, facade.ErrConnectionLost)
	}
	var remote *RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	switch remote.Code {
	case "not-found":
		return errors.WithType(err, errors.NotFound)
	case "not-implemented":
		return errors.WithType(err, errors.NotSupported)
	case "unauthorized":
		return errors.WithType(err, errors.Unauthorized)
	}
	return err
}

type appArgs struct {
	Application string `json:"application"`
}

// Life is part of facade.Applications.
func (f *Facade) Life(ctx context.Context, app string) (facade.Life, error) {
	var answer struct {
		Life facade.Life `json:"life"`
	}
	err := f.call(ctx, "life", appArgs{app}, &answer)
	return answer.Life, err
}

// CharmInfo is part of facade.Applications.
func (f *Facade) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	var answer struct {
		Name     string        `json:"name"`
		Revision int           `json:"revision"`
		Series   []string      `json:"series"`
		Bases    []facade.Base `json:"bases"`
	}
	err := f.call(ctx, "charm", appArgs{app}, &answer)
	return facade.CharmInfo{
		Name: answer.Name, Revision: answer.Revision, Series: answer.Series, Bases: answer.Bases,
	}, err
}

// OperatorProvisioningInfo is part of facade.Applications.
func (f *Facade) OperatorProvisioningInfo(ctx context.Context, app string) (facade.OperatorProvisioningInfo, error) {
	var answer struct {
		Image        string            `json:"image"`
		PullUser     string            `json:"pull-user"`
		PullPassword string            `json:"pull-password"`
		Version      string            `json:"version"`
		Addresses    []string          `json:"addresses"`
		Tags         map[string]string `json:"tags"`
	}
	if err := f.call(ctx, "provisioning-info", appArgs{app}, &answer); err != nil {
		return facade.OperatorProvisioningInfo{}, err
	}
	return facade.OperatorProvisioningInfo{
		ImageDetails: facade.ImageDetails{
			RegistryPath: answer.Image,
			Username:     answer.PullUser,
			Password:     facade.NewSecret(answer.PullPassword),
		},
		Version:      answer.Version,
		APIAddresses: answer.Addresses,
		Tags:         answer.Tags,
	}, nil
}

// wirePassword is an ApplicationPassword as it travels. A Secret would travel
// as "[redacted]".
type wirePassword struct {
	Application string `json:"application"`
	Password    string `json:"password"`
}

// SetPasswords is part of facade.Applications.
func (f *Facade) SetPasswords(ctx context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	args := make([]wirePassword, len(passwords))
	for i, p := range passwords {
		args[i] = wirePassword{Application: p.Name, Password: p.Password.Reveal()}
	}
	var answer struct {
		Results []*RemoteError `json:"results"`
	}
	if err := f.call(ctx, "set-passwords", args, &answer); err != nil {
		return nil, err
	}
	results := make([]error, len(answer.Results))
	for i, remote := range answer.Results {
		if remote != nil {
			results[i] = withKind(remote)
		}
	}
	return results, nil
}

// IssueOperatorCertificate is part of facade.Applications.
func (f *Facade) IssueOperatorCertificate(ctx context.Context, app string) (facade.OperatorCertificate, error) {
	var answer struct {
		CACert     string `json:"ca-cert"`
		Cert       string `json:"cert"`
		PrivateKey string `json:"private-key"`
	}
	if err := f.call(ctx, "issue-certificate", appArgs{app}, &answer); err != nil {
		return facade.OperatorCertificate{}, err
	}
	return facade.OperatorCertificate{
		CACert:     answer.CACert,
		Cert:       answer.Cert,
		PrivateKey: facade.NewSecret(answer.PrivateKey),
	}, nil
}

// WatchApplications is part of facade.Applications.
func (f *Facade) WatchApplications(ctx context.Context) (facade.StringsWatcher, error) {
	return f.watch(ctx, "applications")
}

// watch subscribes first and reads then: what happens in between is told twice
// rather than never.
func (f *Facade) watch(ctx context.Context, topic string) (facade.StringsWatcher, error) {
	sub, err := f.conn.Subscribe(ctx, topic)
	if err != nil {
		return nil, withKind(err)
	}
	var baseline []string
	if err := f.call(ctx, "list", nil, &baseline); err != nil {
		sub.Close()
		return nil, err
	}
	return newWatcher(sub, baseline)
}

// watcher is a facade.StringsWatcher on a subscription.
type watcher struct {
	catacomb catacomb.Catacomb
	sub      Subscription
	changes  chan []string
}

func newWatcher(sub Subscription, baseline []string) (facade.StringsWatcher, error) {
	w := &watcher{sub: sub, changes: make(chan []string)}
	err := catacomb.Invoke(catacomb.Plan{
		Site: &w.catacomb,
		Work: func() error { return w.loop(baseline) },
	})
	if err != nil {
		sub.Close()
		return nil, errors.Trace(err)
	}
	return w, nil
}

// Changes is part of facade.Watcher.
func (w *watcher) Changes() <-chan []string { return w.changes }

// Kill is part of worker.Worker.
func (w *watcher) Kill() { w.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (w *watcher) Wait() error { return w.catacomb.Wait() }

// loop passes events on. While nobody reads they become one; the subscription
// is always read.
func (w *watcher) loop(baseline []string) error {
	defer w.sub.Close()
	next, out := baseline, w.changes // the baseline is sent also when it is empty
	for {
		select {
		case <-w.catacomb.Dying():
			return w.catacomb.ErrDying()
		case names, ok := <-w.sub.Events():
			if !ok {
				return errors.Trace(facade.ErrConnectionLost)
			}
			next, out = union(next, names), w.changes
		case out <- next:
			next, out = nil, nil
		}
	}
}

func union(a, b []string) []string {
	set := make(map[string]bool, len(a)+len(b))
	for _, names := range [][]string{a, b} {
		for _, name := range names {
			set[name] = true
		}
	}
	return slices.Collect(maps.Keys(set))
}
