package operator_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

const canary = "canary7f3e"

func TestInfoMarshalWritesTheKeysThatAreNotEmpty(t *testing.T) {
	const pem = "-----BEGIN X-----\nYWJj\n-----END X-----\n"
	for _, test := range []struct {
		name string
		info operator.Info
		want string
	}{
		{"nothing", operator.Info{}, "{}\n"},
		{"all", operator.Info{CACert: pem, Cert: pem + pem, PrivateKey: facade.NewSecret(pem)},
			"ca-cert: |\n  -----BEGIN X-----\n  YWJj\n  -----END X-----\n" +
				"cert: |\n  -----BEGIN X-----\n  YWJj\n  -----END X-----\n  -----BEGIN X-----\n  YWJj\n  -----END X-----\n" +
				"private-key: |\n  -----BEGIN X-----\n  YWJj\n  -----END X-----\n"},
		{"the CA alone", operator.Info{CACert: "ca"}, "ca-cert: ca\n"},
		{"the certificate alone", operator.Info{Cert: "123"}, "cert: \"123\"\n"},
		{"the key alone", operator.Info{PrivateKey: facade.NewSecret("yes")}, "private-key: \"yes\"\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := test.info.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if got := data.Reveal(); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			back, err := operator.ParseInfo(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back, test.info) {
				t.Errorf("back comes %#v", back)
			}
		})
	}
}

func TestInfoMarshalRefusesWhatTheFileCannotHold(t *testing.T) {
	large := strings.Repeat(canary, operator.MaxInfoSize/len(canary))
	for want, info := range map[string]operator.Info{
		"operator.yaml, ca-cert (not UTF-8) not valid":     {CACert: canary + "\xff"},
		"operator.yaml, cert (not UTF-8) not valid":        {Cert: canary + "\xff"},
		"operator.yaml, private-key (not UTF-8) not valid": {PrivateKey: facade.NewSecret(canary + "\xff")},
		"operator.yaml (larger than 1 MiB) not valid":      {PrivateKey: facade.NewSecret(large)},
	} {
		data, err := info.Marshal()
		if !errors.Is(err, errors.NotValid) || !data.IsZero() {
			t.Fatalf("Marshal = %v, %v, want %s", data, err, want)
		}
		if err.Error() != want || strings.Contains(errors.ErrorStack(err), canary) {
			t.Errorf("got  %s\nwant %s", errors.ErrorStack(err), want)
		}
	}
}

func TestParseInfoIgnoresWhatItDoesNotKnow(t *testing.T) {
	for in, want := range map[string]operator.Info{
		"":                                       {},
		"\n# nothing\n":                          {},
		"~":                                      {},
		"{}":                                     {},
		"ca-cert:\ncert: ''\n":                   {},
		"private-key: ~\n":                       {},
		"other: [1, {a: b}]\n":                   {},
		"Cert: a\nca_cert: b\n":                  {},
		"cert: 12\nother: x\n":                   {Cert: "12"},
		"---\ncert: a\r\n":                       {Cert: "a"},
		"private-key: a\ncert: b\nca-cert: c\n":  {CACert: "c", Cert: "b", PrivateKey: facade.NewSecret("a")},
		`{"cert": "a\nb\n", "private-key": "k"}`: {Cert: "a\nb\n", PrivateKey: facade.NewSecret("k")},
	} {
		got, err := operator.ParseInfo(facade.NewSecret(in))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v", in, got, err)
		}
	}
}

func TestParseInfoRefuses(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"- canary7f3e", "operator.yaml line 1 (want a mapping) not valid"},
		{"canary7f3e", "operator.yaml line 1 (want a mapping) not valid"},
		{"cert: a\nprivate-key: [canary7f3e]", "operator.yaml line 2, private-key (want text) not valid"},
		{"cert: {a: canary7f3e}", "operator.yaml line 1, cert (want text) not valid"},
		{"ca-cert:\n- canary7f3e", "operator.yaml line 2, ca-cert (want text) not valid"},
		{"cert: canary7f3e\ncert: canary7f3e", "operator.yaml line 2 (a key is there twice) not valid"},
		{"other: &a canary7f3e\ncert: *a", "operator.yaml line 1 (anchors and aliases are not taken) not valid"},
		{"cert: !!binary Y2FuYXJ5N2YzZQ==", "operator.yaml line 1 (explicit tags are not taken) not valid"},
		{"cert: a\n---\ncert: canary7f3e", "operator.yaml line 2 (more than one document) not valid"},
		{"cert: \"canary7f3e", "operator.yaml (not YAML) not valid"},
		{"cert: a\nprivate-key: \"canary7f3e\n", "operator.yaml line 2 (not YAML at or below this line) not valid"},
		{"private-key: canary7f3e\x00", "operator.yaml (not YAML) not valid"},
		{"private-key: canary7f3e\xff", "operator.yaml (not YAML) not valid"},
		{strings.Repeat("#", operator.MaxInfoSize) + canary, "operator.yaml (larger than 1 MiB) not valid"},
	} {
		got, err := operator.ParseInfo(facade.NewSecret(test.in))
		if !errors.Is(err, errors.NotValid) || !reflect.DeepEqual(got, operator.Info{}) {
			t.Fatalf("%.60q: %#v, %v", test.in, got, err)
		}
		if err.Error() != test.want || strings.Contains(errors.ErrorStack(err), canary) {
			t.Errorf("%.60q:\ngot  %s\nwant %s", test.in, errors.ErrorStack(err), test.want)
		}
	}
}

// infoErrorForm is all that an error of ParseInfo may say.
var infoErrorForm = regexp.MustCompile(`^operator\.yaml( line \d{1,7})?(, (ca-cert|cert|private-key))? \((larger than 1 MiB|` +
	`not YAML( at or below this line)?|more than one document|want a mapping|nested too deep|anchors and aliases are not taken|` +
	`explicit tags are not taken|merge keys are not taken|want a key that is text|a key is there twice|want text)\) not valid$`)

// FuzzParseInfo holds that no input makes ParseInfo panic, that no error repeats
// the input, and that what was parsed survives another round.
func FuzzParseInfo(f *testing.F) {
	f.Add("ca-cert: |\n  a\n  b\ncert: 'c'\nprivate-key: \"d\\n\"\nother: [1]\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		info, err := operator.ParseInfo(facade.NewSecret(text))
		if err != nil {
			if !errors.Is(err, errors.NotValid) || !infoErrorForm.MatchString(err.Error()) {
				t.Fatalf("the error says %q", err)
			}
			return
		}
		checkInfoRound(t, info)
	})
}

// FuzzInfoMarshal holds that every text comes back as it was.
func FuzzInfoMarshal(f *testing.F) {
	f.Add("-----BEGIN X-----\nYWJj\n-----END X-----\n", "")
	f.Add(" a\n b", "~")
	f.Add("\n\n", "\xff")
	f.Fuzz(func(t *testing.T, a, b string) {
		info := operator.Info{CACert: a, Cert: b, PrivateKey: facade.NewSecret(a + b)}
		if !utf8.ValidString(a) || !utf8.ValidString(b) {
			if _, err := info.Marshal(); !errors.Is(err, errors.NotValid) {
				t.Fatalf("marshal what is no text: %v", err)
			}
			return
		}
		checkInfoRound(t, info)
	})
}

func checkInfoRound(t *testing.T, info operator.Info) {
	t.Helper()
	data, err := info.Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	back, err := operator.ParseInfo(data)
	if err != nil {
		t.Fatalf("parse what was marshalled: %v", err)
	}
	if !reflect.DeepEqual(back, info) {
		t.Fatalf("got  %q, %q, %q\nwant %q, %q, %q", back.CACert, back.Cert, back.PrivateKey.Reveal(),
			info.CACert, info.Cert, info.PrivateKey.Reveal())
	}
}
