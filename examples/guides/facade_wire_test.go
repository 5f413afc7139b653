package guides_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// wire is a guides.Conn to a controller in memory. Everything goes through JSON
// both ways, as it would over a socket: what does not survive that is lost.
type wire struct {
	controller *fakes.Controller

	mu       sync.Mutex
	closed   bool
	watchers []*fakes.Watcher[[]string]
}

func newWire(controller *fakes.Controller) *wire {
	return &wire{controller: controller.Session(fakes.NewFaults(clock.WallClock))}
}

// cut ends the connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for _, watcher := range w.watchers {
		watcher.Close()
	}
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

func (w *wire) Call(ctx context.Context, method string, args, answer any) error {
	if w.isClosed() {
		return guides.ErrConnClosed
	}
	request, err := json.Marshal(args)
	if err != nil {
		return err
	}
	reply, err := w.serve(ctx, method, request)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return refusal(err)
	}
	data, err := json.Marshal(reply)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(data, answer)
}

func (w *wire) Subscribe(ctx context.Context, topic string) (guides.Subscription, error) {
	if w.isClosed() {
		return nil, guides.ErrConnClosed
	}
	var watcher facade.StringsWatcher
	var err error
	if topic == "provisioning" {
		watcher, err = w.controller.WatchProvisioning(ctx)
	} else {
		watcher, err = w.controller.WatchApplications(ctx)
	}
	if err != nil {
		return nil, refusal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fake := watcher.(*fakes.Watcher[[]string])
	w.watchers = append(w.watchers, fake)
	return subscription{fake}, nil
}

type subscription struct{ *fakes.Watcher[[]string] }

func (s subscription) Events() <-chan []string { return s.Changes() }
func (s subscription) Close()                  { s.Kill() }

// refusal is an error as the controller puts it on the wire.
func refusal(err error) *guides.RemoteError {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errors.NotFound):
		return &guides.RemoteError{Code: "not-found", Message: err.Error()}
	case errors.Is(err, errors.NotSupported):
		return &guides.RemoteError{Code: "not-implemented", Message: err.Error()}
	}
	return &guides.RemoteError{Code: "failed", Message: err.Error()}
}

// serve is the controller's end.
func (w *wire) serve(ctx context.Context, method string, request []byte) (any, error) {
	var arg struct {
		Application string                    `json:"application"`
		Status      facade.ProvisioningStatus `json:"status"`
		Message     string                    `json:"message"`
	}
	if method != "set-passwords" && method != "info" && method != "list" {
		if err := json.Unmarshal(request, &arg); err != nil {
			return nil, err
		}
	}
	c, app := w.controller, arg.Application
	switch method {
	case "list":
		return w.list(ctx)
	case "life":
		life, err := c.Life(ctx, app)
		return map[string]any{"life": life}, err
	case "charm":
		charm, err := c.CharmInfo(ctx, app)
		return map[string]any{
			"name": charm.Name, "revision": charm.Revision, "series": charm.Series, "bases": charm.Bases,
		}, err
	case "provisioning-info":
		info, err := c.OperatorProvisioningInfo(ctx, app)
		return map[string]any{
			"image": info.ImageDetails.RegistryPath, "version": info.Version,
			"pull-user": info.ImageDetails.Username, "pull-password": info.ImageDetails.Password.Reveal(),
			"addresses": info.APIAddresses, "tags": info.Tags,
		}, err
	case "issue-certificate":
		cert, err := c.IssueOperatorCertificate(ctx, app)
		return map[string]any{
			"ca-cert": cert.CACert, "cert": cert.Cert, "private-key": cert.PrivateKey.Reveal(),
		}, err
	case "set-status":
		return nil, c.SetProvisioningStatus(ctx, app, arg.Status, arg.Message)
	case "set-passwords":
		return w.setPasswords(ctx, request)
	case "info":
		return w.info(ctx, request)
	}
	return nil, errors.NotSupportedf("method %q", method)
}

// list is the baseline of a watcher that is thrown away.
func (w *wire) list(ctx context.Context) ([]string, error) {
	watcher, err := w.controller.WatchApplications(ctx)
	if err != nil {
		return nil, err
	}
	defer watcher.Kill()
	return slices.Sorted(slices.Values(<-watcher.Changes())), nil
}

func (w *wire) setPasswords(ctx context.Context, request []byte) (any, error) {
	var args []struct{ Application, Password string }
	if err := json.Unmarshal(request, &args); err != nil {
		return nil, err
	}
	passwords := make([]facade.ApplicationPassword, len(args))
	for i, a := range args {
		passwords[i] = facade.ApplicationPassword{Name: a.Application, Password: facade.NewSecret(a.Password)}
	}
	results, err := w.controller.SetPasswords(ctx, passwords)
	refusals := make([]*guides.RemoteError, len(results))
	for i, err := range results {
		refusals[i] = refusal(err)
	}
	return map[string]any{"results": refusals}, err
}

func (w *wire) info(ctx context.Context, request []byte) (any, error) {
	var apps []string
	if err := json.Unmarshal(request, &apps); err != nil {
		return nil, err
	}
	infos, err := w.controller.ApplicationsInfo(ctx, apps)
	out := make([]map[string]any, len(infos))
	for i, info := range infos {
		out[i] = map[string]any{
			"application": info.Name, "life": info.Life, "format": info.Format,
			"charm-error": refusal(info.FormatErr), "error": refusal(info.Err),
		}
	}
	return out, err
}
