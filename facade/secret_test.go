package facade_test

import (
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
)

const canary = "canary-51c7"

func TestSecretIsZeroWhenItHoldsNothing(t *testing.T) {
	var unmarshalled facade.Secret
	if err := unmarshalled.UnmarshalText(nil); err != nil {
		t.Fatal(err)
	}
	for _, s := range []facade.Secret{{}, facade.NewSecret(""), unmarshalled} {
		if !s.IsZero() || s.Reveal() != "" {
			t.Errorf("IsZero() = %v, Reveal() = %q", s.IsZero(), s.Reveal())
		}
		if s.String() != facade.Redacted {
			t.Errorf("an empty secret shows itself as %q, and so tells that it is empty", s.String())
		}
	}
	if facade.NewSecret(" ").IsZero() {
		t.Error("a blank secret is zero")
	}
}

func TestSecretEqualComparesTheText(t *testing.T) {
	texts := []string{"", "a", "b", "ab", canary}
	for _, a := range texts {
		for _, b := range texts {
			if got := facade.NewSecret(a).Equal(facade.NewSecret(b)); got != (a == b) {
				t.Errorf("%q equal %q: %v", a, b, got)
			}
		}
	}
	if !(facade.Secret{}).Equal(facade.NewSecret("")) {
		t.Error("the zero value differs from the empty secret")
	}
}

func TestSecretShowsItselfAsRedacted(t *testing.T) {
	s := facade.NewSecret(canary)
	type holder struct {
		S facade.Secret `json:"s" yaml:"s" xml:"s"`
	}
	for name, marshal := range map[string]func(any) ([]byte, error){
		"JSON": json.Marshal, "YAML": yaml.Marshal, "XML": xml.Marshal,
	} {
		out, err := marshal(holder{s})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(out), facade.Redacted) || strings.Contains(string(out), canary) {
			t.Errorf("%s: %s", name, out)
		}
	}
	if got := s.LogValue().String(); got != facade.Redacted {
		t.Errorf("LogValue() = %q", got)
	}
	if s.GoString() != facade.Redacted || s.String() != facade.Redacted {
		t.Errorf("GoString() = %q, String() = %q", s.GoString(), s.String())
	}
	// gob looks for no text marshaller, and finds nothing that it may send.
	if err := gob.NewEncoder(io.Discard).Encode(s); err == nil {
		t.Error("gob sends a secret")
	}
}

func TestSecretIsLeftOutWhereZeroIs(t *testing.T) {
	type holder struct {
		S facade.Secret `json:"s,omitzero" yaml:"s,omitempty"`
	}
	if out, err := json.Marshal(holder{}); err != nil || string(out) != "{}" {
		t.Errorf("JSON: %s, %v", out, err)
	}
	if out, err := yaml.Marshal(holder{}); err != nil || string(out) != "{}\n" {
		t.Errorf("YAML: %s, %v", out, err)
	}
}

func TestSecretIsReadFromTextOfEveryForm(t *testing.T) {
	type holder struct{ S facade.Secret }
	for _, test := range []struct {
		name, in  string
		unmarshal func([]byte, any) error
		want      string
	}{
		{"JSON", `{"S": "` + canary + `"}`, json.Unmarshal, canary},
		{"JSON, empty", `{"S": ""}`, json.Unmarshal, ""},
		{"JSON, null", `{"S": null}`, json.Unmarshal, ""},
		{"YAML", "s: " + canary, yaml.Unmarshal, canary},
		{"YAML, a number", "s: 0123", yaml.Unmarshal, "0123"},
		{"YAML, lines", "s: |\n  a\n  b\n", yaml.Unmarshal, "a\nb\n"},
		{"YAML, null", "s: ~", yaml.Unmarshal, ""},
		{"XML", "<holder><S>" + canary + "</S></holder>", xml.Unmarshal, canary},
	} {
		var h holder
		if err := test.unmarshal([]byte(test.in), &h); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if got := h.S.Reveal(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestSecretThatCannotBeReadIsNotRepeated(t *testing.T) {
	type holder struct{ S facade.Secret }
	for _, in := range []string{`{"S": 517517}`, `{"S": ["` + canary + `"]}`, `{"S": {"a": "` + canary + `"}}`} {
		for name, unmarshal := range map[string]func([]byte, any) error{"JSON": json.Unmarshal, "YAML": yaml.Unmarshal} {
			var h holder
			err := unmarshal([]byte(strings.ReplaceAll(in, `"S"`, `"s"`)), &h)
			if err == nil && name == "YAML" {
				continue // a number is text to YAML
			}
			if err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "517517") {
				t.Errorf("%s of %s: %v", name, in, err)
			}
		}
	}
}

// TestRedactedSecretDoesNotComeBack holds that a round trip over a report does
// not turn a password into the word that hid it.
func TestRedactedSecretDoesNotComeBack(t *testing.T) {
	type holder struct{ S facade.Secret }
	for name, codec := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		"JSON": {json.Marshal, json.Unmarshal},
		"YAML": {yaml.Marshal, yaml.Unmarshal},
	} {
		out, err := codec.marshal(holder{facade.NewSecret(canary)})
		if err != nil {
			t.Fatal(err)
		}
		back := holder{facade.NewSecret("before")}
		if err := codec.unmarshal(out, &back); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: %v", name, err)
		}
		if got := back.S.Reveal(); got != "before" {
			t.Errorf("%s: an error changed the secret to %q", name, got)
		}
	}
}

func TestSecretsOfEqualTextAreDeeplyEqual(t *testing.T) {
	a, b := facade.NewSecret(canary), facade.NewSecret(strings.Clone(canary))
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, facade.NewSecret("x")) {
		t.Error("reflect.DeepEqual does not compare the texts")
	}
}

func TestSecretDoesNotFollowItsSource(t *testing.T) {
	text := []byte(canary)
	var s facade.Secret
	if err := s.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	text[0] = 'X'
	if got := s.Reveal(); got != canary {
		t.Errorf("the secret is now %q", got)
	}
}
