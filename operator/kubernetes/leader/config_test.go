package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

func TestValidateNamesTheFieldAndTheRule(t *testing.T) {
	tests := []struct {
		about  string
		damage func(*leader.Config)
		want   string // "" for valid
	}{
		{"as it should be", func(*leader.Config) {}, ""},
		{"no client", func(c *leader.Config) { c.Client = nil }, "nil Client"},
		{"no namespace", func(c *leader.Config) { c.Namespace = "" }, "empty Namespace"},
		{"namespace", func(c *leader.Config) { c.Namespace = "my.model" }, `Namespace "my.model" (must not contain dots)`},
		{"no name", func(c *leader.Config) { c.Name = "" }, "empty Name"},
		{"name", func(c *leader.Config) { c.Name = "Leader!" }, `Name "Leader!" (a lowercase RFC 1123 subdomain`},
		{"name with dots", func(c *leader.Config) { c.Name = "leader.sutler.dev" }, ""},
		{"no identity", func(c *leader.Config) { c.Identity = "" }, "empty Identity"},
		{"free identity", func(c *leader.Config) { c.Identity = "machine-0/lxd/1 (über)" }, ""},

		{"negative lease", func(c *leader.Config) { c.LeaseDuration = -1 }, "negative LeaseDuration"},
		{"negative deadline", func(c *leader.Config) { c.RenewDeadline = -1 }, "negative RenewDeadline"},
		{"negative period", func(c *leader.Config) { c.RetryPeriod = -1 }, "negative RetryPeriod"},
		{"a lease of no whole seconds", func(c *leader.Config) { c.LeaseDuration = 15500 * time.Millisecond },
			"LeaseDuration 15.5s (want whole seconds)"},
		{"a lease under a second", func(c *leader.Config) {
			c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 900*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
		}, "LeaseDuration 900ms (want whole seconds)"},
		{"deadline of the lease", func(c *leader.Config) { c.RenewDeadline = 15 * time.Second },
			"RenewDeadline 15s (want less than LeaseDuration, 15s)"},
		{"lease of the default deadline", func(c *leader.Config) { c.LeaseDuration = 10 * time.Second },
			"RenewDeadline 10s (want less than LeaseDuration, 10s)"},
		{"period too long", func(c *leader.Config) { c.RetryPeriod = 9 * time.Second },
			"RetryPeriod 9s (want 1.2 times it to be less than RenewDeadline, 10s)"},
		{"deadline of the default period", func(c *leader.Config) { c.RenewDeadline = 2400 * time.Millisecond },
			"RetryPeriod 2s (want 1.2 times it to be less than RenewDeadline, 2.4s)"},
		{"quick", func(c *leader.Config) {
			c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = time.Second, 900*time.Millisecond, 100*time.Millisecond
		}, ""},
		{"slow", func(c *leader.Config) { c.LeaseDuration = time.Hour }, ""},

		{"label", func(c *leader.Config) { c.Labels = map[string]string{"a": "b", "app.kubernetes.io/name": "sutler"} }, ""},
		{"label's key", func(c *leader.Config) { c.Labels = map[string]string{"a": "b", "not a key": "c"} }, `Labels "not a key"="c" (`},
		{"label's value", func(c *leader.Config) { c.Labels = map[string]string{"a": "not a value"} }, `Labels "a"="not a value" (`},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			c := config(newCluster().client(), "a")
			test.damage(&c)
			err := c.Validate()
			switch {
			case test.want == "" && err != nil:
				t.Errorf("Validate() = %v, want nil", err)
			case test.want != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Validate() = %v, want a NotValid that says %q", err, test.want)
			}
			// What is valid here is valid for client-go too.
			w, err := leader.New(c)
			if w != nil {
				w.Kill()
				err = errors.Trace(w.Wait())
			}
			if test.want == "" && err != nil || test.want != "" && !errors.Is(err, errors.NotValid) {
				t.Errorf("New() = %v", err)
			}
		})
	}
}
