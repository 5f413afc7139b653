package facade_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
)

func TestSecretShowsItselfNowhere(t *testing.T) {
	const canary = "canary-51c7"
	type holder struct {
		Public  facade.Secret
		private facade.Secret
	}
	s := facade.NewSecret(canary)
	h := holder{Public: s, private: s}
	m := map[string]any{"s": s, "h": h, "p": &h, "l": []facade.Secret{s}}

	var out bytes.Buffer
	for _, v := range []any{s, &s, h, &h, m, []holder{h}, fmt.Errorf("it is %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T", "%10.3s", "%p"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		if data, err := json.Marshal(v); err == nil {
			out.Write(data)
		}
		if data, err := yaml.Marshal(v); err == nil {
			out.Write(data)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
	}
	if strings.Contains(out.String(), canary) {
		t.Errorf("the secret is in:\n%s", out.String())
	}
	if hex := fmt.Sprintf("%x", canary); strings.Contains(strings.ToLower(out.String()), hex) {
		t.Error("the secret is there in hex")
	}
	if s.Reveal() != canary {
		t.Errorf("Reveal() = %q, want the text", s.Reveal())
	}
}
