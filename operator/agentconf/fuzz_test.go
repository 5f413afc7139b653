package agentconf_test

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// canary is put somewhere into an input that must not be repeated.
const canary = "canary7f3e"

// errorForm is all that an error of Parse may say: words of its own, known keys
// and numbers of lines.
var errorForm = regexp.MustCompile(`^agent\.conf( line \d{1,7})?(, (tag|datadir|transient-datadir|logdir|metricsspooldir|` +
	`nonce|jobs|upgradedToVersion|cacert|controller|model|apiaddresses|apipassword|oldpassword|loggingconfig|values))? \((` +
	`larger than 1 MiB|want # format 2\.0|not YAML( at or below this line)?|more than one document|want a mapping|` +
	`nested too deep|anchors and aliases are not taken|explicit tags are not taken|merge keys are not taken|` +
	`want a key that is text|a key is there twice|want text|want (controller|model)-<uuid>|want a list( of text)?|` +
	`want a mapping of text to text|cannot be written as YAML)\) not valid$`)

// FuzzParse holds that no input makes Parse panic, that no error repeats the
// input, and that what was parsed and rendered is parsed and rendered the same.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"operator.golden", "full.golden", "field.conf", "field.golden"} {
		f.Add(golden(f, name), uint(40))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint) {
		c, err := agentconf.Parse(data)
		checkError(t, err)
		if err == nil {
			checkFixedPoint(t, c)
		}
		// The same with the canary in it: an error that had repeated a
		// line, a key or a value would show it.
		_, err = agentconf.Parse(withCanary(data, at))
		checkError(t, err)
	})
}

func withCanary(data []byte, at uint) []byte {
	i := int(at % uint(len(data)+1))
	return bytes.Join([][]byte{data[:i], []byte(canary), data[i:]}, nil)
}

func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if !errors.Is(err, errors.NotValid) {
		t.Fatalf("%v is no NotValid", err)
	}
	if !errorForm.MatchString(err.Error()) {
		t.Fatalf("the error says %q", err)
	}
	if strings.Contains(errors.ErrorStack(err), canary) {
		t.Fatalf("the error repeats its input: %s", errors.ErrorStack(err))
	}
}

// checkFixedPoint makes of c a configuration that can be rendered, and holds
// that a second round changes nothing.
func checkFixedPoint(t *testing.T, c *agentconf.Config) {
	t.Helper()
	complete(c)
	first, err := c.Render()
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	again, err := agentconf.Parse(first)
	if err != nil {
		t.Fatalf("parse what was rendered: %v\n%s", err, first)
	}
	if !reflect.DeepEqual(again, withDefaults(c)) {
		t.Fatalf("got  %#v\nwant %#v\nout of\n%s", again, withDefaults(c), first)
	}
	second, err := again.Render()
	if err != nil {
		t.Fatalf("render again: %v", err)
	}
	if !bytes.Equal(first, second) {
		t.Fatalf("first:\n%s\nsecond:\n%s", first, second)
	}
}

// complete makes c one that Validate takes, if it is not, and leaves alone what
// has no rule.
func complete(c *agentconf.Config) {
	if c.Validate() == nil {
		return
	}
	whole := operatorConfig()
	c.Tag = whole.Tag
	c.DataDir = whole.DataDir
	c.UpgradedToVersion = whole.UpgradedToVersion
	c.CACert = whole.CACert
	c.ControllerUUID = whole.ControllerUUID
	c.ModelUUID = whole.ModelUUID
	c.APIAddresses = whole.APIAddresses
	c.OldPassword = whole.OldPassword
}

// withDefaults is what Render makes of empty fields.
func withDefaults(c *agentconf.Config) *agentconf.Config {
	out := c.Clone()
	if out.TransientDataDir == "" {
		out.TransientDataDir = agentconf.DefaultTransientDataDir
	}
	if out.MetricsSpoolDir == "" {
		out.MetricsSpoolDir = agentconf.DefaultMetricsSpoolDir
	}
	return out
}

// FuzzRender holds that every text comes back as it was, whatever YAML might
// take it for.
func FuzzRender(f *testing.F) {
	for _, s := range []string{
		"", " ", "~", "null", "true", "y", "No", "12", "0o17", "0x1F", "1e3", ".inf", "1_000", "12:30", "1:20.5", "2020-01-02",
		"<<", "=", "!!binary x", "&a", "*a", "- a", "a: b", "a #b", "# a", "%a", "@a", "`a", "'", `"`, `\`, "|", ">", "?", ":", "a:",
		"\n", "a\n", "a\n\nb", " a\nb", "a\n b\n", "a\r\nb", "\ta", "a\tb\nc", "\u0085", "\u2028", "\ufeffa", "\x00", "\x7f", "é", "---", "---\na", "...\n",
		strings.Repeat("long ", 50), strings.Repeat("k", 200), caCert, caCert + caCert, "\xff",
	} {
		f.Add(s, "other")
		f.Add("other", s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c := operatorConfig()
		c.Nonce, c.LogDir, c.LoggingConfig = a, b, a+b
		c.CACert = "x" + b
		c.OldPassword = facade.NewSecret("x" + a)
		c.APIPassword = facade.NewSecret(a)
		c.Jobs = []string{a, b}
		c.Values = map[string]string{a: b, b: a, "x" + a: ""}
		out, err := c.Render()
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			if !errors.Is(err, errors.NotValid) {
				t.Fatalf("render what is no text: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := agentconf.Parse(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if want := withDefaults(c); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %#v\nwant %#v\nout of\n%s", got, want, out)
		}
	})
}
