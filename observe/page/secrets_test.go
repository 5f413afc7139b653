package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// secretsIn returns every piece of a file that would give something away: values
// of keys that hold secrets, line by line.
func secretsIn(t *testing.T, file facade.Secret) (out []string) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(file.Reveal()), &content); err != nil {
		t.Fatal(err)
	}
	for key, value := range content {
		text, ok := value.(string)
		if !ok || !strings.Contains(key, "password") && !strings.Contains(key, "key") {
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	return out
}

// careless is a secret that a reporter reports.
const careless = "correct horse battery staple"

// A day with everything going wrong, and every page looked at all the time.
func TestNoPageEverHoldsASecret(t *testing.T) {
	story(t, func(w *world) {
		w.faults.OnCall(func(c fakes.Call) fakes.Effect {
			if strings.HasPrefix(c.Method, "Watch") {
				return fakes.Effect{} // would end the worker
			}
			switch c.Seq % 11 {
			case 1:
				return fakes.Effect{Err: errors.Errorf("%s failed with %v", c.Method, c.Args)}
			case 3:
				return fakes.Effect{Err: boom, Act: fakes.Fully}
			case 5:
				return fakes.Effect{Panic: fmt.Sprintf("panic over %v", c.Args)}
			}
			return fakes.Effect{}
		})
		apps := []string{"grafana", "mysql", "redis", "vault"}
		for _, app := range apps {
			w.controller.AddApplication(app, fakes.App{})
		}
		for _, id := range []string{"0/lxd/0", "0/kvm/0"} {
			w.machine.AddContainer(id, fakes.Container{})
		}
		w.config.Reporter = reporter(func() map[string]any {
			var calls []any
			list := w.faults.Calls()
			for _, c := range list[max(0, len(list)-200):] {
				calls = append(calls, map[string]any{"method": c.Method, "args": c.Args, "err": c.Err})
			}
			return map[string]any{"calls": calls, "careless": facade.NewSecret(careless)}
		})
		var pages []string
		secrets := []string{careless}
		look := func() {
			for _, target := range []string{"/", "/?per=1000&sort=name", "/report", "/report?format=json", "/ready"} {
				pages = append(pages, w.request(http.MethodGet, target).Body.String())
			}
			for _, app := range apps {
				if password, ok := w.controller.Password(app); ok && !password.IsZero() {
					secrets = append(secrets, password.Reveal())
				}
				if stored := w.manager.Config(app); stored != nil {
					secrets = append(secrets, secretsIn(t, stored.AgentConf)...)
					secrets = append(secrets, secretsIn(t, stored.OperatorInfo)...)
				}
			}
		}
		running := w.operators(fakes.ModelUUID)
		w.setup()
		for range 40 {
			w.after(7 * time.Second)
			look()
			for _, app := range apps {
				_ = running.Trigger(app)
			}
		}
		if len(secrets) < 100 {
			t.Fatalf("only %d secrets were made", len(secrets))
		}
		all := strings.Join(pages, "\n")
		for _, secret := range secrets {
			if strings.Contains(all, secret) {
				t.Fatalf("a page shows the secret %.6s...", secret)
			}
		}
		for _, want := range []string{facade.Redacted, "panic over", "failed with"} {
			if !strings.Contains(all, want) {
				t.Errorf("no page has %q: the test shows nothing", want)
			}
		}
	})
}
