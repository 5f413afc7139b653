package prometheus_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/observe/internal/need"
)

// promtool runs promtool and wants it to succeed.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), need.Program(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusTakesTheRules(t *testing.T) {
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "", append([]string{"check", "rules"}, files...)...)
}

func TestEachAlertFiresWhenItShouldAndNotElse(t *testing.T) {
	files, err := filepath.Glob("rules/tests/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	promtool(t, "", append([]string{"test", "rules"}, files...)...)

	var cases string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases += string(data)
	}
	all, recorded := rules(t)
	for _, r := range all {
		if r.Alert == "" {
			continue
		}
		for _, name := range []string{r.Alert + " fires", r.Alert + " is silent"} {
			if !strings.Contains(cases, "name: "+name+"\n") {
				t.Errorf("no case %q", name)
			}
		}
	}
	for name := range recorded {
		if !strings.Contains(cases, "expr: "+name+"\n") {
			t.Errorf("no case for %s", name)
		}
	}
}

func TestRulesUseWhatIsExportedAndSayWhatToDo(t *testing.T) {
	families := families(t)
	all, recorded := rules(t)
	seen := make(map[string]bool)
	for _, r := range all {
		used(t, r.Expr, families, recorded)
		if seen[r.Record+r.Alert] {
			t.Errorf("%s%s is there twice", r.Record, r.Alert)
		}
		seen[r.Record+r.Alert] = true
		if r.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		want := "https://github.com/sutler-dev/sutler/blob/main/docs/operating.md#alert-" + strings.ToLower(r.Alert)
		if got := r.Annotations["runbook_url"]; got != want {
			t.Errorf("%s has runbook_url %q, want %q", r.Alert, got, want)
		}
		// A bare age of a timestamp that is 0 for none would be half a century.
		if strings.Contains(r.Expr, "time()") && !strings.Contains(r.Expr, "> 0") {
			t.Errorf("%s takes 0 for a time: %s", r.Alert, r.Expr)
		}
	}
}
