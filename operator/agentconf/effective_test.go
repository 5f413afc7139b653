package agentconf_test

import (
	"bytes"
	"testing"

	"github.com/sutler-dev/sutler/operator/agentconf"
)

func TestEffectiveIsTheSameForWhatSaysTheSame(t *testing.T) {
	t.Parallel()
	const base = "# format 2.0\ntag: application-db\ndatadir: /d\nupgradedToVersion: 2.9.49\ncacert: ca\n" +
		"controller: controller-a1e5c3f2-7d4b-4c68-9f10-3b2d6e8a7c51\nmodel: model-5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04\napiaddresses: [\"b:2\", \"a:1\"]\noldpassword: canary\nvalues: {}\n"
	if _, err := agentconf.Parse([]byte(base)); err != nil {
		t.Fatal(err)
	}
	effective := agentconf.Effective([]byte(base))
	if again := agentconf.Effective(effective); !bytes.Equal(again, effective) {
		t.Errorf("of its own result it is another one")
	}
	for name, test := range map[string]struct {
		file string
		same bool
	}{
		"order of the addresses": {replace(base, `"b:2", "a:1"`, `"a:1", "b:2"`), true},
		"an address twice":       {replace(base, `"a:1"`, `"a:1", "b:2"`), true},
		"form":                   {replace(base, "2.9.49", `"2.9.49"`), true},
		"another address":        {replace(base, "a:1", "a:2"), false},
		"another password":       {replace(base, "canary", "other"), false},
		"another value":          {replace(base, "values: {}", "values: {a: b}"), false},
	} {
		if same := bytes.Equal(agentconf.Effective([]byte(test.file)), effective); same != test.same {
			t.Errorf("%s: the same %v, want %v", name, same, test.same)
		}
	}
}

func TestEffectiveOfWhatIsNoAgentConfIsItself(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "# format 3.0\n", "# format 2.0\ntag: [\n", "# format 2.0\ntag: x\n"} {
		if got := agentconf.Effective([]byte(file)); string(got) != file {
			t.Errorf("of %q it is %q", file, got)
		}
	}
}

func replace(file, old, text string) string {
	return string(bytes.Replace([]byte(file), []byte(old), []byte(text), 1))
}
