package agentconf_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

const (
	controllerUUID = "deadbeef-1bad-500d-9000-4b1d0d06f00d"
	modelUUID      = "deadbeef-0bad-400d-8000-4b1d0d06f00d"
	caCert         = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2FuYXJ5\nc3VjaA==\n-----END CERTIFICATE-----\n"
)

// operatorConfig is what the provisioner renders for a fresh operator.
func operatorConfig() *agentconf.Config {
	return &agentconf.Config{
		Tag:               agentconf.TagForApplication("mysql"),
		DataDir:           "/var/lib/juju",
		LogDir:            "/var/log/juju",
		UpgradedToVersion: "2.9.49",
		CACert:            caCert,
		ControllerUUID:    controllerUUID,
		ModelUUID:         modelUUID,
		APIAddresses:      []string{"10.0.0.1:17070", "[fd00::1]:17070", "controller.example.com:17070"},
		OldPassword:       facade.NewSecret("b4Yl2Xq9zT7hUw3EoKcR5mNd"),
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRenderWritesTheGoldenFile(t *testing.T) {
	full := operatorConfig()
	full.TransientDataDir = "/run/agent"
	full.MetricsSpoolDir = "/srv/spool"
	full.Nonce = "user-admin:bootstrap"
	full.Jobs = []string{"JobHostUnits", "JobManageModel"}
	full.APIPassword = facade.NewSecret("12345678")
	full.OldPassword = facade.NewSecret(`it's "quoted": yes # no`)
	full.LoggingConfig = "<root>=INFO;unit=DEBUG"
	full.Values = map[string]string{"B": "true", "A": "", "PROVIDER_TYPE": "k8s", "n": "0x1F"}
	for name, c := range map[string]*agentconf.Config{
		"operator.golden": operatorConfig(),
		"full.golden":     full,
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				got, err := c.Render()
				if err != nil {
					t.Fatal(err)
				}
				if want := golden(t, name); string(got) != string(want) {
					t.Fatalf("got:\n%s\nwant:\n%s", got, want)
				}
			}
		})
	}
}

func TestParseReadsWhatRenderWrote(t *testing.T) {
	data, err := operatorConfig().Render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := agentconf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want := operatorConfig()
	want.TransientDataDir = agentconf.DefaultTransientDataDir
	want.MetricsSpoolDir = agentconf.DefaultMetricsSpoolDir
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestParseReadsFilesOfTheField reads what agents have written: other orders,
// no indentation of lists, unquoted passwords that look like numbers, keys of
// controllers.
func TestParseReadsFilesOfTheField(t *testing.T) {
	c, err := agentconf.Parse(golden(t, "field.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Password().Reveal(); got != "0123456789" {
		t.Errorf("password %q", got)
	}
	if want := []string{"localhost:17070", "10.8.0.3:17070"}; !reflect.DeepEqual(c.APIAddresses, want) {
		t.Errorf("APIAddresses = %q, want %q", c.APIAddresses, want)
	}
	if want := map[string]string{"AGENT_SERVICE_NAME": "jujud-machine-0", "CONTAINER_TYPE": "", "mongo-fast": "true", "n": "10"}; !reflect.DeepEqual(c.Values, want) {
		t.Errorf("Values = %q, want %q", c.Values, want)
	}
	if c.CACert != caCert {
		t.Errorf("CACert = %q", c.CACert)
	}
	if c.ControllerUUID != controllerUUID || c.ModelUUID != modelUUID {
		t.Errorf("UUIDs %q, %q", c.ControllerUUID, c.ModelUUID)
	}
	if c.UpgradedToVersion != "2.9.49" || c.Tag != "machine-0" || c.Nonce != "user-admin:bootstrap" {
		t.Errorf("got %+v", c)
	}

	t.Run("and keeps what it does not know, last and in order", func(t *testing.T) {
		out, err := c.Clone().Render()
		if err != nil {
			t.Fatal(err)
		}
		if want := golden(t, "field.golden"); string(out) != string(want) {
			t.Errorf("got:\n%s\nwant:\n%s", out, want)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	const head = "# format 2.0\n"
	for _, test := range []struct {
		name, in, want string
	}{
		{"nothing", "", "agent.conf line 1 (want # format 2.0) not valid"},
		{"no format", "tag: canary\n", "agent.conf line 1 (want # format 2.0) not valid"},
		{"another format", "# format 1.18\ntag: canary\n", "agent.conf line 1 (want # format 2.0) not valid"},
		{"a format with more", "# format 2.0.1\n", "agent.conf line 1 (want # format 2.0) not valid"},
		{"a list", head + "- canary\n", "agent.conf line 2 (want a mapping) not valid"},
		{"a scalar", head + "canary\n", "agent.conf line 2 (want a mapping) not valid"},
		{"broken YAML", head + "tag: [canary\n", "agent.conf line 1 (not YAML at or below this line) not valid"},
		{"a tab", head + "tag:\n\t- canary\n", "agent.conf line 3 (not YAML at or below this line) not valid"},
		{"a control character", head + "tag: can\x01ary\n", "agent.conf (not YAML) not valid"},
		{"no UTF-8", head + "tag: canary\xff\n", "agent.conf (not YAML) not valid"},
		{"a second document", head + "tag: canary\n---\ntag: canary\n", "agent.conf line 3 (more than one document) not valid"},
		{"a key twice", head + "tag: canary\ntag: canary\n", "agent.conf line 3 (a key is there twice) not valid"},
		{"an unknown key twice", head + "canary: 1\ncanary: 1\n", "agent.conf line 3 (a key is there twice) not valid"},
		{"a nested key twice", head + "a: {canary: 1, canary: 2}\n", "agent.conf line 2 (a key is there twice) not valid"},
		{"a value twice", head + "values:\n  canary: 1\n  \"canary\": 2\n", "agent.conf line 4 (a key is there twice) not valid"},
		{"an alias", head + "nonce: &canary x\ntag: *canary\n", "agent.conf line 2 (anchors and aliases are not taken) not valid"},
		{"an alias of nothing", head + "tag: *canary\n", "agent.conf (not YAML) not valid"},
		{"an alias as a key", head + "a: [1]\n*canary : 2\n", "agent.conf (not YAML) not valid"},
		{"a merge", head + "<<: {tag: canary}\n", "agent.conf line 2 (merge keys are not taken) not valid"},
		{"a tag", head + "tag: !canary x\n", "agent.conf line 2 (explicit tags are not taken) not valid"},
		{"a binary", head + "tag: !!binary Y2FuYXJ5\n", "agent.conf line 2 (explicit tags are not taken) not valid"},
		{"a key that is a list", head + "? [canary]\n: 1\n", "agent.conf line 2 (want a key that is text) not valid"},
		{"a key that is nothing", head + "~: canary\n", "agent.conf line 2 (want a key that is text) not valid"},
		{"a list for a text", head + "tag: [canary]\n", "agent.conf line 2, tag (want text) not valid"},
		{"a mapping for a password", head + "oldpassword: {canary: 1}\n", "agent.conf line 2, oldpassword (want text) not valid"},
		{"a text for a list", head + "jobs: canary\n", "agent.conf line 2, jobs (want a list) not valid"},
		{"a list in a list", head + "apiaddresses:\n- a:1\n- [canary]\n", "agent.conf line 4, apiaddresses (want a list of text) not valid"},
		{"a text for a mapping", head + "values: canary\n", "agent.conf line 2, values (want a mapping) not valid"},
		{"a list in a mapping", head + "values:\n  a: [canary]\n", "agent.conf line 3, values (want a mapping of text to text) not valid"},
		{"a controller without prefix", head + "controller: canary\n", "agent.conf line 2, controller (want controller-<uuid>) not valid"},
		{"a model with another prefix", head + "model: controller-canary\n", "agent.conf line 2, model (want model-<uuid>) not valid"},
		{"depth", head + "canary: " + strings.Repeat("[", 50) + strings.Repeat("]", 50), "agent.conf line 2 (nested too deep) not valid"},
		{"great depth", head + "canary: " + strings.Repeat("[", 100_000), "agent.conf line 2 (not YAML at or below this line) not valid"},
		{"size", head + "tag: canary" + strings.Repeat("x", agentconf.MaxSize), "agent.conf (larger than 1 MiB) not valid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := agentconf.Parse([]byte(test.in))
			if err == nil || c != nil {
				t.Fatalf("Parse = %+v, %v", c, err)
			}
			if !errors.Is(err, errors.NotValid) {
				t.Errorf("kind of %v", err)
			}
			if got := err.Error(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if details := errors.Details(err) + errors.ErrorStack(err); strings.Contains(details, "canary") {
				t.Errorf("the input is in %s", details)
			}
		})
	}
}
