package prometheus_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/observe/prometheus"
)

var update = flag.Bool("update", false, "write the tables of docs/observe/metrics.md")

const page = "../../docs/observe/metrics.md"

// table is what the documentation has to say of families.
func table(families []prometheus.Family, plain map[string]bool, labelled bool) string {
	var out strings.Builder
	out.WriteString("| name | type | labels | is |\n|---|---|---|---|\n")
	for _, f := range families {
		if plain[f.Name] == labelled {
			continue
		}
		labels := strings.Join(f.Labels, "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, labels, strings.TrimSuffix(f.Help, "."))
	}
	return out.String()
}

func TestTheDocumentationListsEveryMetric(t *testing.T) {
	without, err := prometheus.New(prometheus.Config{Registerer: client.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	with, err := prometheus.New(prometheus.Config{Registerer: client.NewRegistry(), ApplicationLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	plain := make(map[string]bool)
	for _, f := range without.Families() {
		plain[f.Name] = true
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, mark := range []string{"metrics", "labelled"} {
		want := table(with.Families(), plain, mark == "labelled")
		begin, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->"
		before, rest, _ := strings.Cut(text, begin)
		got, after, ok := strings.Cut(rest, end)
		if !ok {
			t.Fatalf("%s has no %q and %q", page, begin, end)
		}
		if *update {
			text = before + begin + want + end + after
		} else if got != want {
			t.Errorf("%s differs between %s and %s: go test ./prometheus -run Documentation -update", page, begin, end)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheDocumentationListsEveryAlert(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := rules(t)
	listed := 0
	for _, r := range all {
		if r.Alert == "" {
			continue
		}
		listed++
		row := fmt.Sprintf("\n| `%s` | %s | %s | ", r.Alert, r.Labels["severity"], r.For)
		if !strings.Contains(string(content), row) {
			t.Errorf("%s has no row %q", page, row)
		}
	}
	if rows := strings.Count(string(content), "\n| `Sutler"); rows != listed {
		t.Errorf("%s has %d alerts, want %d", page, rows, listed)
	}
}
