package operatorcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"golang.org/x/crypto/bcrypt"

	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// deadline is for what happens soon, on a machine that may be busy: under the
// race detector a password takes a second to check.
const deadline = 30 * time.Second

// world is a controller with one application, db, and the files of its operator.
type world struct {
	*controller.Controller
	t     *testing.T
	model string // the model's directory
	state *controller.State
	dir   string // the operator's directory
	conf  *agentconf.Config
	log   *safeBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, model: t.TempDir(), dir: t.TempDir(), log: &safeBuffer{}}
	write(t, filepath.Join(w.model, "model.yaml"), "name: shop\nuuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e\n")
	write(t, filepath.Join(w.model, "applications", "db", "application.yaml"), "life: alive\n")
	w.start()
	t.Cleanup(w.stop)

	cert, err := w.IssueOperatorCertificate(t.Context(), "db")
	if err != nil {
		t.Fatal(err)
	}
	info, err := operator.Info{CACert: cert.CACert, Cert: cert.Cert, PrivateKey: cert.PrivateKey}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(w.dir, infoFile), info.Reveal())
	w.conf = &agentconf.Config{
		Tag:               "application-db",
		DataDir:           "/data",
		UpgradedToVersion: "2.9.49",
		CACert:            w.state.CACert(),
		ControllerUUID:    w.state.ControllerUUID(),
		ModelUUID:         "9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e",
		APIAddresses:      []string{w.Address()},
		OldPassword:       facade.NewSecret("the-canary"),
	}
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.state, err = controller.OpenState(w.model, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	w.Controller, err = controller.New(controller.Config{
		Dir: w.model, State: w.state, Clock: clock.WallClock, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) stop() {
	w.t.Helper()
	if err := worker.Stop(w.Controller); err != nil {
		w.t.Error(err)
	}
	_ = w.state.Close()
}

// setPassword tells the controller the operator's password.
func (w *world) setPassword(password string) {
	w.t.Helper()
	errs, err := w.SetPasswords(w.t.Context(), []facade.ApplicationPassword{{Name: "db", Password: facade.NewSecret(password)}})
	if err != nil || errs[0] != nil {
		w.t.Fatal(errs, err)
	}
}

// storePassword is setPassword for a controller that is started anew. It hashes
// at the least cost, which the race detector multiplies.
func (w *world) storePassword(password string) {
	w.t.Helper()
	w.stop()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, filepath.Join(w.state.Dir(), "passwords.yaml"), "db: "+string(hash)+"\n")
	w.start()
}

// writeConf writes one of the operator's two agent.conf, as changed.
func (w *world) writeConf(name string, change func(*agentconf.Config)) {
	w.t.Helper()
	conf := w.conf.Clone()
	change(conf)
	data, err := conf.Render()
	if err != nil {
		w.t.Fatal(err)
	}
	write(w.t, filepath.Join(w.dir, name), string(data))
}

// run starts the operator; stop ends it and returns what it returned.
func (w *world) run() (stop func() error) { return w.runAs(nil) }

// runAs is run with a config that was changed.
func (w *world) runAs(change func(*Config)) (stop func() error) {
	config := Config{
		Dir: w.dir, Application: "db", Clock: clock.WallClock,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, config) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(deadline):
			w.t.Error("the operator does not stop")
			return nil
		}
	})
	w.t.Cleanup(func() { _ = stop() })
	return stop
}

// operator returns what the controller knows of the operator.
func (w *world) operator(key string) any {
	apps, _ := w.Report()["applications"].(map[string]any)
	app, _ := apps["db"].(map[string]any)
	op, _ := app["operator"].(map[string]any)
	return op[key]
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("never: %s\nreport: %v\nlog:\n%s", what, w.Report(), w.log)
		}
	}
}

func (w *world) expectActive() {
	w.t.Helper()
	w.eventually("active", func() bool { return w.operator("status") == "active" })
}

func TestOperatorLogsInServesItsCertificateAndSaysGoodbye(t *testing.T) {
	w := newWorld(t)
	w.storePassword("the-canary")
	w.writeConf(ownConf, func(*agentconf.Config) {})
	stop := w.run()
	w.expectActive()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.state.CACert()))
	client := http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "db"}, DisableKeepAlives: true},
		Timeout:   deadline,
	}
	resp, err := client.Get(fmt.Sprintf("https://%s/", w.operator("address")))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if want := `{"application":"db","status":"active"}`; strings.TrimSpace(string(body)) != want {
		t.Errorf("got %s, want %s", body, want)
	}

	if err := stop(); err != nil {
		t.Errorf("got %v", err)
	}
	if got := w.operator("status"); got != "stopped" {
		t.Errorf("got status %v, want a goodbye", got)
	}
	if strings.Contains(w.log.String(), "canary") {
		t.Errorf("the password is in the log:\n%s", w.log)
	}
}

func TestOperatorsOwnPasswordGoesFirstThenTheOldThenTheTemplates(t *testing.T) {
	w := newWorld(t)
	for tries, password := range []string{"own", "old", "template"} {
		w.storePassword(password)
		w.writeConf(ownConf, func(c *agentconf.Config) {
			c.APIPassword, c.OldPassword = facade.NewSecret("own"), facade.NewSecret("old")
		})
		w.writeConf(templateConf, func(c *agentconf.Config) { c.OldPassword = facade.NewSecret("template") })
		stop := w.run()
		w.expectActive()
		if got := w.operator("refused"); got != tries {
			t.Errorf("with the %s password: got %v refused, want %d", password, got, tries)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestAddressesAndCAComeFromTheTemplate(t *testing.T) {
	w := newWorld(t)
	w.storePassword("the-canary")
	w.writeConf(ownConf, func(c *agentconf.Config) {
		c.APIAddresses = []string{"127.0.0.1:1"}
		c.CACert = "of an earlier controller"
	})
	w.writeConf(templateConf, func(c *agentconf.Config) {
		c.APIAddresses = append([]string{"127.0.0.1:1"}, c.APIAddresses...) // the first leads nowhere
	})
	w.run()
	w.expectActive()
}

func TestOperatorWaitsForItsPassword(t *testing.T) {
	w := newWorld(t)
	w.writeConf(ownConf, func(*agentconf.Config) {})
	w.run()
	w.eventually("refused", func() bool { n, _ := w.operator("refused").(int); return n >= 1 })
	w.setPassword("the-canary")
	w.expectActive()
}

func TestOperatorLogsInAgainWhenTheControllerWasAway(t *testing.T) {
	w := newWorld(t)
	w.storePassword("the-canary")
	w.writeConf(ownConf, func(*agentconf.Config) {})
	w.run()
	w.expectActive()
	w.stop()
	// It knows no session of before.
	w.start()
	w.expectActive()
	if got := w.operator("logins"); got != 1 {
		t.Errorf("got %v log-ins", got)
	}
}

func TestStrangerGetsNoPassword(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer stranger.Close()
	w.storePassword("the-canary")
	// The stranger is asked first, every time.
	w.writeConf(ownConf, func(c *agentconf.Config) {
		c.APIAddresses = append([]string{stranger.Listener.Addr().String()}, c.APIAddresses...)
	})
	w.run()
	w.expectActive()
	if asked.Load() != 0 {
		t.Error("somebody with another CA was sent a request")
	}
}

func TestRunRefusesFilesItCannotUse(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(w *world)
		want  string
	}{
		"no agent.conf":    {func(w *world) { _ = os.Remove(filepath.Join(w.dir, ownConf)) }, "agent.conf not found"},
		"no operator.yaml": {func(w *world) { _ = os.Remove(filepath.Join(w.dir, infoFile)) }, "operator.yaml not found"},
		"agent.conf that others read": {func(w *world) { _ = os.Chmod(filepath.Join(w.dir, ownConf), 0o644) },
			"agent.conf with mode 0644 (want 0660)"},
		"a template of another application and no agent.conf": {func(w *world) {
			_ = os.Remove(filepath.Join(w.dir, ownConf))
			w.writeConf(templateConf, func(c *agentconf.Config) { c.Tag = "application-web" })
		}, "template-agent.conf: tag (want application-db)"},
		"another application's": {func(w *world) {
			w.writeConf(ownConf, func(c *agentconf.Config) { c.Tag = "application-web" })
		}, "agent.conf: tag (want application-db)"},
		"malformed agent.conf": {func(w *world) { write(w.t, filepath.Join(w.dir, ownConf), "the-canary") }, "agent.conf"},
		"malformed template":   {func(w *world) { write(w.t, filepath.Join(w.dir, templateConf), "the-canary") }, "template-agent.conf"},
		"operator.yaml without a key": {func(w *world) { write(w.t, filepath.Join(w.dir, infoFile), "cert: the-canary\n") },
			"operator.yaml: certificate and key"},
		"a CA that is none": {func(w *world) {
			w.writeConf(ownConf, func(c *agentconf.Config) { c.CACert = "the-canary" })
		}, "CA certificate (want PEM)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.writeConf(ownConf, func(*agentconf.Config) {})
			test.spoil(w)
			err := Run(t.Context(), Config{
				Dir: w.dir, Application: "db", Clock: clock.WallClock, Logger: slog.New(slog.DiscardHandler),
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestConfigNamesWhatIsMissing(t *testing.T) {
	good := Config{Dir: "d", Application: "db", Clock: clock.WallClock, Logger: slog.New(slog.DiscardHandler)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"empty Dir":                func(c *Config) { c.Dir = "" },
		"nil Clock":                func(c *Config) { c.Clock = nil },
		`Listen "1234"`:            func(c *Config) { c.Listen = "1234" },
		"nil Logger":               func(c *Config) { c.Logger = nil },
		"empty application name":   func(c *Config) { c.Application = "" },
		`application name "../db"`: func(c *Config) { c.Application = "../db" },
	} {
		config := good
		change(&config)
		if err := Run(t.Context(), config); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// safeBuffer is a bytes.Buffer for many goroutines.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
