package prometheus_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/observe/prometheus"
)

// families are all that can be exported, by name.
func families(t *testing.T) map[string]prometheus.Family {
	t.Helper()
	m, err := prometheus.New(prometheus.Config{Registerer: client.NewRegistry(), ApplicationLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]prometheus.Family)
	for _, f := range m.Families() {
		out[f.Name] = f
	}
	return out
}

var metricName = regexp.MustCompile(`\bsutler[_:][a-z0-9_:]+`)

// used returns the families that an expression uses, and complains of names that
// are neither exported nor recorded.
func used(t *testing.T, expr string, families map[string]prometheus.Family, recorded map[string]bool) (names []string) {
	t.Helper()
	for _, name := range metricName.FindAllString(expr, -1) {
		if recorded[name] {
			continue
		}
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, ok := strings.CutSuffix(name, suffix); ok && families[cut].Kind == "histogram" {
				base = cut
			}
		}
		if families[base].Name == "" || families[base].Kind == "histogram" && base == name {
			t.Errorf("%s is not exported, in %q", name, expr)
		}
		names = append(names, base)
	}
	return names
}

// rule is one of the rules files.
type rule struct {
	Record, Alert, Expr, For string
	Labels                   map[string]string
	Annotations              map[string]string
}

// rules reads all rules.
func rules(t *testing.T) (all []rule, recorded map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	recorded = make(map[string]bool)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		if err := yaml.Unmarshal(data, &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, group := range content.Groups {
			for _, r := range group.Rules {
				if r.Record != "" {
					recorded[r.Record] = true
				}
				all = append(all, r)
			}
		}
	}
	return all, recorded
}
