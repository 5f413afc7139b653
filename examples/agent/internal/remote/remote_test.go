package remote

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// deadline is for what happens at once, on a machine that may be busy.
const deadline = 30 * time.Second

// source is a controller with one application, db.
type source struct {
	watchers chan *events
	told     []wireStatus
	given    []facade.ApplicationPassword
	block    chan struct{} // closed when somebody waits in CharmInfo of "slow"
}

func newSource() *source {
	return &source{watchers: make(chan *events, 8), block: make(chan struct{})}
}

var (
	certificate = facade.OperatorCertificate{CACert: "ca", Cert: "cert", PrivateKey: facade.NewSecret("the-key")}
	info        = facade.OperatorProvisioningInfo{
		ImageDetails:     facade.ImageDetails{RegistryPath: "registry/agent:1"},
		BaseImageDetails: facade.ImageDetails{RegistryPath: "registry/base:1"},
		Version:          "2.9.49",
		APIAddresses:     []string{"192.0.2.1:17070"},
		Tags:             map[string]string{"a": "b"},
		CharmStorage:     &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "kubernetes", Attributes: map[string]string{"c": "d"}},
	}
	charmInfo = facade.CharmInfo{Name: "db-k8s", Revision: 3, Series: []string{"kubernetes"}, Bases: []facade.Base{{Name: "ubuntu"}}}
)

func known(app string) error {
	switch app {
	case "db":
		return nil
	case "broken":
		return errors.NotValidf("applications/broken/application.yaml:2: replicas")
	case "failing":
		return errors.New("the disk is on fire")
	}
	return errors.NotFoundf("application %q", app)
}

func (s *source) Life(_ context.Context, app string) (facade.Life, error) {
	return facade.Dying, known(app)
}

func (s *source) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	if app == "slow" {
		close(s.block)
		<-ctx.Done()
		return facade.CharmInfo{}, ctx.Err()
	}
	return charmInfo, known(app)
}

func (s *source) OperatorProvisioningInfo(_ context.Context, app string) (facade.OperatorProvisioningInfo, error) {
	return info, known(app)
}

func (s *source) IssueOperatorCertificate(_ context.Context, app string) (facade.OperatorCertificate, error) {
	return certificate, known(app)
}

func (s *source) SetPasswords(_ context.Context, list []facade.ApplicationPassword) ([]error, error) {
	s.given = list
	results := make([]error, len(list))
	for i, p := range list {
		results[i] = known(p.Name)
	}
	return results, nil
}

func (s *source) ApplicationsInfo(_ context.Context, names []string) ([]facade.ApplicationInfo, error) {
	if len(names) == 0 {
		return nil, errors.NotSupportedf("asking for nothing")
	}
	out := make([]facade.ApplicationInfo, len(names))
	for i, name := range names {
		out[i] = facade.ApplicationInfo{Name: name, Life: facade.Alive, Format: 1}
		if err := known(name); err != nil {
			out[i] = facade.ApplicationInfo{Name: name, Err: err}
		}
	}
	out[0].Format, out[0].FormatErr = 0, errors.NotFoundf("charm")
	return out, nil
}

func (s *source) SetProvisioningStatus(_ context.Context, app string, status facade.ProvisioningStatus, message string) error {
	s.told = append(s.told, wireStatus{app, status, message})
	return known(app)
}

func (s *source) WatchApplications(context.Context) (facade.StringsWatcher, error) {
	w := &events{changes: make(chan []string)}
	s.watchers <- w
	return w, catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error {
		<-w.catacomb.Dying()
		return w.catacomb.ErrDying()
	}})
}

func (s *source) WatchProvisioning(context.Context) (facade.StringsWatcher, error) {
	return nil, errors.NotSupportedf("watching that")
}

// events is a watcher that the test tells.
type events struct {
	catacomb catacomb.Catacomb
	changes  chan []string
}

func (w *events) Changes() <-chan []string { return w.changes }
func (w *events) Kill()                    { w.catacomb.Kill(nil) }
func (w *events) Wait() error              { return w.catacomb.Wait() }

// connect serves a source and connects with it.
func connect(t *testing.T) (*source, *Controller, worker.Worker) {
	t.Helper()
	s, dir := newSource(), t.TempDir()
	served, err := Serve(t.Context(), dir, s, Identity{"uuid", "ca"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(served) })
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(c) })
	return s, c, served
}

func TestEveryAnswerComesThroughAsItIs(t *testing.T) {
	s, c, _ := connect(t)
	ctx := t.Context()
	if c.ControllerUUID() != "uuid" || c.CACert() != "ca" {
		t.Errorf("got %s, %s", c.ControllerUUID(), c.CACert())
	}
	if got, err := c.Life(ctx, "db"); got != facade.Dying || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := c.CharmInfo(ctx, "db"); !reflect.DeepEqual(got, charmInfo) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.OperatorProvisioningInfo(ctx, "db"); !reflect.DeepEqual(got, info) || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	got, err := c.IssueOperatorCertificate(ctx, "db")
	if got.PrivateKey.Reveal() != "the-key" || got.Cert != "cert" || got.CACert != "ca" || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	list := []facade.ApplicationPassword{{Name: "db", Password: facade.NewSecret("the-canary")}, {Name: "none"}}
	results, err := c.SetPasswords(ctx, list)
	if err != nil || len(results) != 2 || results[0] != nil || !errors.Is(results[1], errors.NotFound) {
		t.Errorf("got %v, %v", results, err)
	}
	if len(s.given) != 2 || s.given[0].Password.Reveal() != "the-canary" || s.given[1].Name != "none" {
		t.Errorf("the controller was given %v", s.given)
	}
	infos, err := c.ApplicationsInfo(ctx, []string{"db", "db", "none"})
	if err != nil || len(infos) != 3 || !errors.Is(infos[0].FormatErr, errors.NotFound) || infos[0].Err != nil ||
		infos[1] != (facade.ApplicationInfo{Name: "db", Life: facade.Alive, Format: 1}) || !errors.Is(infos[2].Err, errors.NotFound) {
		t.Errorf("got %+v, %v", infos, err)
	}
	if err := c.SetProvisioningStatus(ctx, "db", facade.StatusError, "why"); err != nil ||
		!slices.Equal(s.told, []wireStatus{{"db", facade.StatusError, "why"}}) {
		t.Errorf("the controller was told %v, %v", s.told, err)
	}
}

func TestEveryErrorKeepsItsKindAndItsMessage(t *testing.T) {
	_, c, _ := connect(t)
	ctx := t.Context()
	for app, kind := range map[string]error{"none": errors.NotFound, "broken": errors.NotValid, "failing": nil} {
		want := known(app)
		asked := map[string]error{}
		_, asked["Life"] = c.Life(ctx, app)
		_, asked["CharmInfo"] = c.CharmInfo(ctx, app)
		_, asked["OperatorProvisioningInfo"] = c.OperatorProvisioningInfo(ctx, app)
		_, asked["IssueOperatorCertificate"] = c.IssueOperatorCertificate(ctx, app)
		asked["SetProvisioningStatus"] = c.SetProvisioningStatus(ctx, app, "", "")
		for name, err := range asked {
			if err == nil || err.Error() != want.Error() || kind != nil && !errors.Is(err, kind) {
				t.Errorf("%s of %s: got %v, want %v", name, app, err, want)
			}
			if errors.Is(err, facade.ErrConnectionLost) {
				t.Errorf("%s of %s: the connection was not lost", name, app)
			}
		}
	}
	for name, ask := range map[string]func() error{
		"a watcher":         func() error { _, err := c.WatchProvisioning(ctx); return err },
		"a call as a whole": func() error { _, err := c.ApplicationsInfo(ctx, nil); return err },
	} {
		if err := ask(); !errors.Is(err, errors.NotSupported) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// within reads from a channel.
func within[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(deadline):
		t.Fatalf("never: %s", what)
	}
	return v
}

// waiting tells how a worker ended.
func waiting(w worker.Worker) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }()
	return ended
}

func TestWatcherOutlivesTheCallAndEndsAtBothEnds(t *testing.T) {
	s, c, _ := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := watchFor(t, s, c, ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	there := within(t, "a watcher", s.watchers)
	for i := range 3 {
		names := []string{fmt.Sprint("db", i)}
		go func() { there.changes <- names }()
		if got := within(t, "an event", w.Changes()); !slices.Equal(got, names) {
			t.Errorf("got %v, want %v", got, names)
		}
	}
	w.Kill()
	if err := within(t, "its end", waiting(w)); err != nil {
		t.Errorf("got %v", err)
	}
	if err := within(t, "the end at the controller", waiting(there)); err != nil {
		t.Errorf("got %v there", err)
	}
}

// watchFor starts a watcher and sends the baseline, without which there is no
// answer yet.
func watchFor(t *testing.T, s *source, c *Controller, ctx context.Context) (facade.StringsWatcher, error) {
	t.Helper()
	go func() {
		there := <-s.watchers
		there.changes <- []string{"db"}
		s.watchers <- there
	}()
	w, err := c.WatchApplications(ctx)
	if err == nil {
		t.Cleanup(func() { _ = worker.Stop(w) })
		if got := within(t, "the baseline", w.Changes()); !slices.Equal(got, []string{"db"}) {
			t.Errorf("got baseline %v", got)
		}
	}
	return w, err
}

func TestWatcherThatEndsThereIsLost(t *testing.T) {
	s, c, _ := connect(t)
	w, err := watchFor(t, s, c, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within(t, "a watcher", s.watchers).Kill()
	if err := within(t, "its end", waiting(w)); !errors.Is(err, facade.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
}

func TestEndOfTheControllerIsALostConnection(t *testing.T) {
	s, c, served := connect(t)
	w, err := watchFor(t, s, c, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Stop(served); err != nil {
		t.Error(err)
	}
	for what, ended := range map[string]<-chan error{"the watcher": waiting(w), "the connection": waiting(c)} {
		if err := within(t, "the end of "+what, ended); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := c.Life(t.Context(), "db"); !errors.Is(err, facade.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
}

func TestCallThatIsGivenUpIsNoLostConnection(t *testing.T) {
	s, c, _ := connect(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() { <-s.block; cancel(why) }()
	if _, err := c.CharmInfo(ctx, "slow"); !errors.Is(err, why) || errors.Is(err, facade.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	// A watcher that nobody wants any more is not begun.
	if _, err := c.WatchApplications(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if got, err := c.Life(t.Context(), "db"); got != facade.Dying || err != nil {
		t.Errorf("got %v, %v afterwards", got, err)
	}
}

func TestNobodyThereIsNotFoundAndTheSocketIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(t.Context(), dir); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), "running controller") {
		t.Errorf("got %v", err)
	}
	served, err := Serve(t.Context(), dir, newSource(), Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, socketName)); err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("got mode %v, %v", info.Mode(), err)
	}
	if err := worker.Stop(served); err != nil {
		t.Error(err)
	}
}
