package prometheus_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashboard"
)

func TestTheDashboardShowsEveryMetricAndNoOther(t *testing.T) {
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	families := families(t)
	shown := make(map[string]bool)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			names := used(t, target.Expr, families, nil)
			if len(names) == 0 {
				t.Errorf("%q shows nothing of sutler's: %s", p.Title, target.Expr)
			}
			for _, name := range names {
				shown[name] = true
			}
		}
	}
	// Lists for single applications are better read on the agent's own page.
	byName := map[string]bool{
		"sutler_operator_application_unsettled_timestamp_seconds": true,
		"sutler_operator_application_failures":                    true,
		"sutler_operator_applications_omitted":                    true,
		"sutler_container_unsettled_timestamp_seconds":            true,
		"sutler_container_failures":                               true,
		"sutler_container_containers_omitted":                     true,
	}
	for name := range families {
		if !shown[name] && !byName[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
}

func TestTheDashboardLeavesTheDataSourceToTheReader(t *testing.T) {
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if first := d.Templating.List[0]; first.Type != "datasource" || first.Query != "prometheus" {
		t.Errorf("the first variable is %+v, want a data source", first)
	}
	for _, uid := range regexp.MustCompile(`"uid": *"([^"]*)"`).FindAllSubmatch(data, -1) {
		if string(uid[1]) != "${datasource}" {
			t.Errorf("uid %q is somebody's own", uid[1])
		}
	}
	if regexp.MustCompile(`"id": *null|__inputs`).Match(data) {
		t.Error("the dashboard has what an export leaves")
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Datasource == nil || len(p.Targets) == 0 {
			t.Errorf("%q has no data", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource == nil {
				t.Errorf("%q has a target without a data source", p.Title)
			}
		}
	}
}
