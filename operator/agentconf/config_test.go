package agentconf_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

func TestValidateNamesTheField(t *testing.T) {
	type config = agentconf.Config
	for _, test := range []struct {
		name   string
		change func(*config)
		want   string
	}{
		{"no tag", func(c *config) { c.Tag = "" }, "Tag (empty)"},
		{"blank tag", func(c *config) { c.Tag = " \n" }, "Tag (empty)"},
		{"tag without kind", func(c *config) { c.Tag = "canary" }, "Tag (want kind-name)"},
		{"tag without name", func(c *config) { c.Tag = "application-" }, "Tag (want kind-name)"},
		{"tag with a path", func(c *config) { c.Tag = "application-../canary" }, "Tag (want kind-name)"},
		{"no data dir", func(c *config) { c.DataDir = "" }, "DataDir (empty)"},
		{"no version", func(c *config) { c.UpgradedToVersion = "" }, "UpgradedToVersion (empty)"},
		{"no CA", func(c *config) { c.CACert = "\n" }, "CACert (empty)"},
		{"no controller", func(c *config) { c.ControllerUUID = "" }, "ControllerUUID (empty)"},
		{"controller with prefix", func(c *config) { c.ControllerUUID = "controller-" + controllerUUID }, "ControllerUUID (want a UUID)"},
		{"no model", func(c *config) { c.ModelUUID = "" }, "ModelUUID (empty)"},
		{"model that is no UUID", func(c *config) { c.ModelUUID = "canary" }, "ModelUUID (want a UUID)"},
		{"no addresses", func(c *config) { c.APIAddresses = nil }, "APIAddresses (empty)"},
		{"address without port", func(c *config) { c.APIAddresses = []string{"a:1", "canary"} }, "APIAddresses[1] (want host:port)"},
		{"address without host", func(c *config) { c.APIAddresses = []string{":17070"} }, "APIAddresses[0] (want host:port)"},
		{"port too great", func(c *config) { c.APIAddresses = []string{"canary:65536"} }, "APIAddresses[0] (want host:port)"},
		{"no password", func(c *config) { c.OldPassword = facade.Secret{} }, "OldPassword and APIPassword (both empty)"},
		{"blank passwords", func(c *config) {
			c.OldPassword, c.APIPassword = facade.NewSecret(" "), facade.NewSecret("\t\n")
		}, "OldPassword and APIPassword (both empty)"},
		{"password that is no text", func(c *config) { c.OldPassword = facade.NewSecret("canary\xff") }, "OldPassword (not UTF-8)"},
		{"nonce that is no text", func(c *config) { c.Nonce = "canary\xff" }, "Nonce (not UTF-8)"},
		{"job that is no text", func(c *config) { c.Jobs = []string{"canary\xff"} }, "Jobs (not UTF-8)"},
		{"value that is no text", func(c *config) { c.Values = map[string]string{"a": "canary\xff"} }, "Values (not UTF-8)"},
		{"value's key that is no text", func(c *config) { c.Values = map[string]string{"canary\xff": ""} }, "Values (not UTF-8)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := operatorConfig()
			test.change(c)
			err := c.Validate()
			if !errors.Is(err, errors.NotValid) {
				t.Fatalf("Validate = %v", err)
			}
			if got, want := err.Error(), "agent config: "+test.want+" not valid"; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			out, renderErr := c.Render()
			if out != nil || !errors.Is(renderErr, errors.NotValid) || renderErr.Error() != err.Error() {
				t.Errorf("Render = %q, %v", out, renderErr)
			}
			if strings.Contains(errors.ErrorStack(err), "canary") {
				t.Error("the input is in the error")
			}
		})
	}

	t.Run("nil", func(t *testing.T) {
		var c *config
		if err := c.Validate(); !errors.Is(err, errors.NotValid) {
			t.Errorf("Validate = %v", err)
		}
		if out, err := c.Render(); out != nil || !errors.Is(err, errors.NotValid) {
			t.Errorf("Render = %q, %v", out, err)
		}
	})
	t.Run("nothing wrong", func(t *testing.T) {
		if err := operatorConfig().Validate(); err != nil {
			t.Error(err)
		}
	})
	t.Run("tags of the field", func(t *testing.T) {
		for _, tag := range []string{"machine-0", "machine-0-lxd-1", "unit-mysql-0", "application-a-b", "controller-0", "model-" + modelUUID, "user-bob@external"} {
			c := operatorConfig()
			c.Tag = tag
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", tag, err)
			}
		}
	})
}

func TestRenderRefusesWhatParseWouldNotRead(t *testing.T) {
	c := operatorConfig()
	c.Values = map[string]string{"a": strings.Repeat("canary", agentconf.MaxSize/6)}
	out, err := c.Render()
	if out != nil || !errors.Is(err, errors.NotValid) {
		t.Fatalf("Render = %d bytes, %v", len(out), err)
	}
	if got, want := err.Error(), "agent.conf (larger than 1 MiB) not valid"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	// Neither part is too large by itself.
	half := strings.Repeat("x", agentconf.MaxSize*2/3)
	c, err = agentconf.Parse([]byte("# format 2.0\nunknown: " + half + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	complete(c)
	if _, err := c.Render(); err != nil {
		t.Fatal(err)
	}
	c.Nonce = half
	if out, err := c.Render(); out != nil || !errors.Is(err, errors.NotValid) {
		t.Errorf("Render = %d bytes, %v", len(out), err)
	}
}

func TestPasswordIsWhatAnAgentLogsInWith(t *testing.T) {
	for _, test := range []struct{ api, old, want string }{
		{"", "", ""},
		{"api", "", "api"},
		{"", "old", "old"},
		{"api", "old", "api"},
		{" \t\n", "old", "old"},
		{"", " ", ""},
		{"\u00a0", "\r\n", ""},
		{" padded ", "old", " padded "},
	} {
		c := &agentconf.Config{APIPassword: facade.NewSecret(test.api), OldPassword: facade.NewSecret(test.old)}
		if got := c.Password().Reveal(); got != test.want {
			t.Errorf("of %q and %q: %q, want %q", test.api, test.old, got, test.want)
		}
	}
}

func TestCloneSharesNothingThatChanges(t *testing.T) {
	whole, err := agentconf.Parse(golden(t, "field.conf"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := whole.Render()
	if err != nil {
		t.Fatal(err)
	}
	clone := whole.Clone()
	if !reflect.DeepEqual(clone, whole) {
		t.Fatalf("clone %+v of %+v", clone, whole)
	}
	clone.Jobs[0] = "changed"
	clone.APIAddresses[0] = "changed:1"
	clone.Values["changed"] = "changed"
	clone.Tag = "application-changed"
	after, err := whole.Render()
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Errorf("a change of the clone is in the original:\n%s", after)
	}
	if c := (*agentconf.Config)(nil).Clone(); c != nil {
		t.Errorf("clone of nil is %+v", c)
	}
}

// TestEveryFieldIsInTheFile fills every exported field, so that one
// that is added to Config and not to the file is noticed.
func TestEveryFieldIsInTheFile(t *testing.T) {
	c := operatorConfig()
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		name := v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() || !f.IsZero() {
			continue
		}
		switch f.Interface().(type) {
		case string:
			f.SetString("some" + name)
		case facade.Secret:
			f.Set(reflect.ValueOf(facade.NewSecret("some" + name)))
		case []string:
			f.Set(reflect.ValueOf([]string{"some" + name}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"k": "some" + name}))
		default:
			t.Fatalf("field %s of type %v", name, f.Type())
		}
	}
	out, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	got, err := agentconf.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got %#v, want %#v, out of\n%s", got, c, out)
	}
}

func TestPrintedConfigShowsNoSecret(t *testing.T) {
	c, err := agentconf.Parse([]byte("# format 2.0\napipassword: canary\noldpassword: canary\nunknownkey: canary\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(verb+verb, c, *c); strings.Contains(got, "canary") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}

func TestParseTakesEveryWayToWriteIt(t *testing.T) {
	want := withDefaults(operatorConfig())
	want.Values = map[string]string{"a": "1"}
	for name, in := range map[string]string{
		"CRLF": strings.ReplaceAll(string(golden(t, "operator.golden")), "\n", "\r\n"),
		"white space after the format, comments and a document mark": strings.Replace(string(golden(t, "operator.golden")),
			"# format 2.0\n", "# format 2.0 \t\n# a comment\n\n---\n", 1),
		"empty keys":      string(golden(t, "operator.golden")) + "nonce:\njobs:\napipassword: ~\nloggingconfig: ''\n",
		"empty list":      string(golden(t, "operator.golden")) + "jobs: []\n",
		"no last newline": strings.TrimSuffix(string(golden(t, "operator.golden")), "\n"),
		"JSON": `# format 2.0
{"values": {"a": "1"}, "oldpassword": "b4Yl2Xq9zT7hUw3EoKcR5mNd", "apiaddresses": ["10.0.0.1:17070", "[fd00::1]:17070",
"controller.example.com:17070"], "model": "model-deadbeef-0bad-400d-8000-4b1d0d06f00d", "controller":
"controller-deadbeef-1bad-500d-9000-4b1d0d06f00d", "cacert":
"-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2FuYXJ5\nc3VjaA==\n-----END CERTIFICATE-----\n",
"upgradedToVersion": "2.9.49", "metricsspooldir": "/var/lib/juju/metricspool", "logdir": "/var/log/juju",
"transient-datadir": "/var/run/juju", "datadir": "/var/lib/juju", "tag": "application-mysql"}`,
	} {
		t.Run(name, func(t *testing.T) {
			in = strings.Replace(in, "values: {}", "values: {a: 1}", 1)
			got, err := agentconf.Parse([]byte(in))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %#v\nwant %#v", got, want)
			}
		})
	}
	for _, in := range []string{"# format 2.0", "# format 2.0\n", "# format 2.0\n\n# nothing\n", "# format 2.0\n~\n", "# format 2.0\n{}\n"} {
		got, err := agentconf.Parse([]byte(in))
		if err != nil || !reflect.DeepEqual(got, &agentconf.Config{}) {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
	}
}

func TestParseDoesNotKeepItsInput(t *testing.T) {
	data := golden(t, "field.conf")
	c, err := agentconf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'X'
	}
	after, err := c.Render()
	if err != nil {
		t.Fatal(err)
	}
	if string(after) != string(before) {
		t.Error("overwriting the input changed the config")
	}
}

// The figures are what the budget of a settled pass rests on: what has not
// changed is neither parsed nor rendered again.
func BenchmarkParse(b *testing.B) {
	data := golden(b, "operator.golden")
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := agentconf.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	c := operatorConfig()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Render(); err != nil {
			b.Fatal(err)
		}
	}
}
