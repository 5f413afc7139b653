package controller

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

func TestConfigNamesWhatIsMissing(t *testing.T) {
	for want, config := range map[string]Config{
		"empty Dir not valid":  {},
		"nil State not valid":  {Dir: "d"},
		"nil Clock not valid":  {Dir: "d", State: &State{}},
		"nil Logger not valid": {Dir: "d", State: &State{}, Clock: &shiftedClock{}},
	} {
		if _, err := New(config); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestQuestionsAreAnsweredFromTheModel(t *testing.T) {
	w := newWorld(t, v1App("db", "life: dying\nversion: 3.1.0\ntags: {a: b}\n"))
	ctx := t.Context()
	if life, err := w.Life(ctx, "db"); life != facade.Dying || err != nil {
		t.Errorf("got life %q, %v", life, err)
	}
	if charm, err := w.CharmInfo(ctx, "db"); charm.Name != "db" || charm.Format() != 1 || err != nil {
		t.Errorf("got charm %+v, %v", charm, err)
	}
	info, err := w.OperatorProvisioningInfo(ctx, "db")
	if err != nil {
		t.Fatal(err)
	}
	if err := info.Validate(); err != nil {
		t.Error(err)
	}
	if want := []string{w.Address()}; !reflect.DeepEqual(info.APIAddresses, want) {
		t.Errorf("got addresses %v, want the controller's own, %v", info.APIAddresses, want)
	}
	if info.Version != "3.1.0" || info.Tags["a"] != "b" {
		t.Errorf("got %+v", info)
	}
}

func TestAddressesOfTheApplicationGoBeforeTheControllersOwn(t *testing.T) {
	w := newWorld(t, v1App("db", "addresses: ['10.0.0.1:17070']\n"))
	info, err := w.OperatorProvisioningInfo(t.Context(), "db")
	if err != nil || !reflect.DeepEqual(info.APIAddresses, []string{"10.0.0.1:17070"}) {
		t.Errorf("got %v, %v", info.APIAddresses, err)
	}
}

func TestCertificatesLiveAsLongAsTheModelSays(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	w.write("model.yaml", modelYAML+"certificate-life: 30s\n")
	w.eventually("a short life", func() bool { return w.current().CertificateLife == 30*time.Second })
	before := w.clock.Now()
	cert, err := w.IssueOperatorCertificate(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	info := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}
	validity, err := operator.CheckCertificate(info, "db", w.state.CACert(), w.clock.Now())
	// In whole seconds, of which a third of 33 is left.
	if left := validity.RenewAt.Sub(before); err != nil || left < 18*time.Second || left > 21*time.Second {
		t.Errorf("got a certificate that is due in %v, %v", left, err)
	}
}

func TestImageOfTheApplicationGoesBeforeTheDefault(t *testing.T) {
	w := newWorld(t, v1App("db", "image: registry.example/db:1\n"))
	for name, text := range v1App("web", "") {
		w.write(name, text)
	}
	w.stop()
	w.image = "registry.example/agent:1"
	w.start()
	for app, want := range map[string]string{"db": "registry.example/db:1", "web": "registry.example/agent:1"} {
		info, err := w.OperatorProvisioningInfo(t.Context(), app)
		if err != nil || info.ImageDetails.RegistryPath != want {
			t.Errorf("%s: got image %q, %v; want %q", app, info.ImageDetails.RegistryPath, err, want)
		}
	}
}

func TestWhatIsNotThereIsNotFoundAndWhatIsMalformedIsNotValid(t *testing.T) {
	w := newWorld(t, map[string]string{
		"applications/broken/application.yaml": "life: alife\n",
		"applications/bare/application.yaml":   "",
	})
	ctx := t.Context()
	for name, test := range map[string]struct {
		app  string
		want error
		ask  func(app string) error
	}{
		"life of none":     {"none", errors.NotFound, func(app string) error { _, err := w.Life(ctx, app); return err }},
		"life, malformed":  {"broken", errors.NotValid, func(app string) error { _, err := w.Life(ctx, app); return err }},
		"charm of none":    {"none", errors.NotFound, func(app string) error { _, err := w.CharmInfo(ctx, app); return err }},
		"charm not there":  {"bare", errors.NotFound, func(app string) error { _, err := w.CharmInfo(ctx, app); return err }},
		"charm, malformed": {"broken", errors.NotValid, func(app string) error { _, err := w.CharmInfo(ctx, app); return err }},
		"info of none":     {"none", errors.NotFound, func(app string) error { _, err := w.OperatorProvisioningInfo(ctx, app); return err }},
		"info, malformed":  {"broken", errors.NotValid, func(app string) error { _, err := w.OperatorProvisioningInfo(ctx, app); return err }},
		"cert of none":     {"none", errors.NotFound, func(app string) error { _, err := w.IssueOperatorCertificate(ctx, app); return err }},
		"status of none": {"none", errors.NotFound, func(app string) error {
			return w.SetProvisioningStatus(ctx, app, facade.StatusWaiting, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.ask(test.app); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

func TestBulkAnswerHasOneResultForEachInOrder(t *testing.T) {
	files := v1App("db", "")
	files["applications/broken/application.yaml"] = "life: 3\n"
	files["applications/bare/application.yaml"] = "life: dead\n"
	w := newWorld(t, files)
	got, err := w.ApplicationsInfo(t.Context(), []string{"none", "db", "broken", "bare", "db"})
	if err != nil || len(got) != 5 {
		t.Fatalf("got %v, %v", got, err)
	}
	for i, want := range []struct {
		name      string
		life      facade.Life
		format    int
		err       error
		formatErr error
	}{
		{"none", "", 0, errors.NotFound, nil},
		{"db", facade.Alive, 1, nil, nil},
		{"broken", "", 0, errors.NotValid, nil},
		{"bare", facade.Dead, 0, nil, errors.NotFound},
		{"db", facade.Alive, 1, nil, nil},
	} {
		g := got[i]
		if g.Name != want.name || g.Life != want.life || g.Format != want.format ||
			!is(g.Err, want.err) || !is(g.FormatErr, want.formatErr) {
			t.Errorf("%d: got %+v, want %+v", i, g, want)
		}
	}
}

func is(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}

func TestIssuedCertificatePassesTheProvisionersCheck(t *testing.T) {
	long := "a" + strings.Repeat("-b", 99)
	w := newWorld(t, map[string]string{
		"applications/db/application.yaml":           "",
		"applications/" + long + "/application.yaml": "",
	})
	for _, app := range []string{"db", long} {
		cert, err := w.IssueOperatorCertificate(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		info := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}
		validity, err := operator.CheckCertificate(info, app, w.state.CACert(), time.Now())
		if err != nil {
			t.Error(err)
		}
		if left := time.Until(validity.RenewAt); left < model.DefaultCertificateLife/2 {
			t.Errorf("due for renewal in %s already", left)
		}
	}
}

func TestChangesOfTheDirectoryAreTold(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	apps, err := w.WatchApplications(t.Context())
	apps = w.watching(apps, err, "db")
	provisioning, err := w.WatchProvisioning(t.Context())
	provisioning = w.watching(provisioning, err, "db")

	// Each step is seen by its own event: none may be lost on the way.
	for _, step := range []struct {
		name string
		do   func()
		from facade.StringsWatcher
		want string
	}{
		{"a file written in place", func() { w.write("applications/db/application.yaml", "version: 3.0\n") }, provisioning, "db"},
		{"a file replaced, as editors do", func() {
			w.write("applications/db/application.yaml~", "life: dying\nversion: 3.0\n")
			w.rename("applications/db/application.yaml~", "applications/db/application.yaml")
		}, apps, "db"},
		{"a charm file", func() { w.write("applications/db/charm/metadata.yaml", "name: db\n") }, apps, "db"},
		{"a new charm file", func() { w.write("applications/db/charm/manifest.yaml", "bases: [{name: ubuntu}]\n") }, apps, "db"},
		{"a new application", func() { w.write("applications/web/application.yaml", "") }, apps, "web"},
		{"its charm in a new directory", func() { w.write("applications/web/charm/metadata.yaml", "name: web\n") }, apps, "web"},
		{"a file there", func() { w.write("applications/web/charm/metadata.yaml", "name: web2\n") }, apps, "web"},
		{"an application that moved in", func() {
			w.write("elsewhere/application.yaml", "")
			w.rename("elsewhere", "applications/moved")
		}, apps, "moved"},
		{"one renamed", func() { w.rename("applications/moved", "applications/renamed") }, apps, "renamed"},
		{"a change under the new name", func() { w.write("applications/renamed/application.yaml", "life: dead") }, apps, "renamed"},
		{"one of the old name again", func() { w.write("applications/moved/application.yaml", "") }, apps, "moved"},
		{"a change there", func() { w.write("applications/moved/application.yaml", "life: dying") }, apps, "moved"},
		{"an application removed", func() {
			if err := os.RemoveAll(w.path("applications/db")); err != nil {
				t.Fatal(err)
			}
		}, apps, "db"},
		{"the model's version", func() { w.write("model.yaml", modelYAML+"version: 2.9.50\n") }, provisioning, "web"},
	} {
		t.Log(step.name)
		step.do()
		w.expect(step.from, step.want)
	}
	if _, err := w.Life(t.Context(), "db"); !errors.Is(err, errors.NotFound) {
		t.Errorf("got %v, want a removed application not to be found", err)
	}
}

func TestUnreadableModelChangesNothing(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	for _, trouble := range []struct {
		name       string
		begin, end func()
		want       string
	}{
		{"the directory is gone, as if not mounted",
			func() { w.rename("applications", "unmounted") },
			func() { w.rename("unmounted", "applications") },
			"applications: is not there"},
		{"model.yaml is malformed",
			func() { w.write("model.yaml", "name: [\n") },
			func() { w.write("model.yaml", modelYAML) },
			"model.yaml:2: this is not YAML (look at indentation, quotes and brackets)"},
		{"another model's uuid",
			func() { w.write("model.yaml", strings.Replace(modelYAML, "9c3f", "0000", 1)) },
			func() { w.write("model.yaml", modelYAML) },
			"model.yaml: the uuid changed; that takes a new start of the agent"},
	} {
		t.Log(trouble.name)
		trouble.begin()
		w.eventually(trouble.want, func() bool { return w.report("model", "error") == trouble.want })
		if life, err := w.Life(t.Context(), "db"); life != facade.Alive || err != nil {
			t.Errorf("got %q, %v; want the last reading to stand", life, err)
		}
		trouble.end()
		w.eventually("mended", func() bool { return w.report("model", "error") == nil })
	}
}

func TestMalformedFileIsNamedInLogAndReportUntilMended(t *testing.T) {
	w := newWorld(t, v1App("db", "life: alive\nreplicas: 3\n"))
	const want = "applications/db/application.yaml:2: replicas: unknown key"
	problems, ok := w.report("problems").([]any)
	if !ok || len(problems) != 1 || !strings.HasPrefix(problems[0].(string), want) {
		t.Errorf("got problems %v", problems)
	}
	if got, ok := w.report("applications", "db", "error").(string); !ok || !strings.HasPrefix(got, want) {
		t.Errorf("got error %q", got)
	}
	w.eventually("logged", func() bool { return strings.Count(w.log.String(), want) == 1 })
	w.write("applications/db/application.yaml", "life: alive\n")
	w.eventually("mended", func() bool { return w.report("problems") == nil })
	w.eventually("logged as mended", func() bool { return strings.Contains(w.log.String(), "no longer malformed") })
}

func TestProvisioningStatusIsReportedUntilTheApplicationGoes(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	if err := w.SetProvisioningStatus(t.Context(), "db", facade.StatusError, "why"); err != nil {
		t.Fatal(err)
	}
	if w.report("applications", "db", "provisioning") != "error" || w.report("applications", "db", "message") != "why" {
		t.Errorf("got %v", w.report("applications", "db"))
	}
	w.rename("applications/db", "db")
	w.eventually("gone", func() bool { return w.report("applications", "db") == nil })
	w.rename("db", "applications/db")
	w.eventually("back", func() bool { return w.report("applications", "db") != nil })
	if got := w.report("applications", "db", "provisioning"); got != nil {
		t.Errorf("got %v, want nothing of the old one", got)
	}
}

func TestWatchersEndWithTheController(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	unread, err := w.WatchApplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped, err := w.WatchProvisioning(t.Context())
	stopped = w.watching(stopped, err, "db")
	if err := worker.Stop(stopped); err != nil {
		t.Errorf("a watcher stopped by its owner: %v", err)
	}
	w.stop()
	if err := unread.Wait(); !errors.Is(err, facade.ErrConnectionLost) {
		t.Errorf("got %v, want ErrConnectionLost", err)
	}
	if _, err := w.WatchApplications(t.Context()); !errors.Is(err, facade.ErrConnectionLost) {
		t.Errorf("got %v, want ErrConnectionLost", err)
	}
	w.start() // for the clean-up
}

func TestUnreadEventsAreCoalesced(t *testing.T) {
	all := watchers[[]string]{event: byName}
	watcher, err := all.add(func() []string { return []string{"a"} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(watcher) }()
	for range 1000 {
		all.tell([]string{"b"})
		all.tell([]string{"c", "a"})
	}
	all.tell(nil)
	seen := map[string]bool{}
	for timeout := time.After(deadline); len(seen) < 3; {
		select {
		case names := <-watcher.Changes():
			for _, name := range names {
				seen[name] = true
			}
		case <-timeout:
			t.Fatalf("saw %v only", seen)
		}
	}
}

func TestReadingWaitsForQuietButNotForEver(t *testing.T) {
	start := time.Now()
	for _, test := range []struct{ since, want time.Duration }{
		{0, quiet},
		{patience - quiet, quiet},
		{patience - quiet/2, quiet / 2},
		{patience, 0},
		{time.Hour, 0},
	} {
		if got := settle(start, start.Add(test.since)); got != test.want {
			t.Errorf("after %s: got %s, want %s", test.since, got, test.want)
		}
	}
}
