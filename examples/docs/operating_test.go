package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// said is which packages say something to whoever runs an agent, and the types whose
// constants are said.
var said = map[string][]string{
	"provisioner":                         {"Outcome", "State", "EventSource"},
	"containersetup":                      {"Phase"},
	"containersetup/containerprovisioner": {"Outcome", "State", "EventSource"},
	"containersetup/hostprep":             nil,
	"containersetup/machinelock":          nil,
	"operator/process":                    nil,
	"facade":                              {"ContainerState", "ProvisioningStatus", "HarvestMode", "Life"},
}

func TestOperatingGuideNamesWhatTheCodeSays(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for folder, types := range said {
		w, err := collect(root, folder, types...)
		if err != nil {
			t.Fatal(err)
		}
		if folder == "facade" {
			w.keys, w.statuses = nil, nil // its own maps are no reports
		}
		for kind, list := range map[string][]word{
			"constant": w.constants, "report key": w.keys, "attribute": w.attributes,
		} {
			for _, said := range list {
				if !strings.Contains(page, "`"+said.text+"`") {
					t.Errorf("docs/operating.md says nothing of the %s `%s` (%s)", kind, said.text, said.at)
				}
			}
		}
		for kind, list := range map[string][]word{"log message": w.messages, "status": w.statuses} {
			for _, said := range list {
				if !strings.Contains(page, said.text) {
					t.Errorf("docs/operating.md says nothing of the %s %q (%s)", kind, said.text, said.at)
				}
			}
		}
	}
}

// An alert's runbook_url is followed at three in the morning.
func TestEveryAlertLeadsToWhatToDo(t *testing.T) {
	const guide = "https://github.com/sutler-dev/sutler/blob/main/docs/operating.md#"
	files, err := filepath.Glob(filepath.Join(root, "observe", "prometheus", "rules", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("rules: %v, %v", files, err)
	}
	alerts, urls := 0, map[string]bool{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		alerts += strings.Count(string(data), "- alert: ")
		for _, line := range strings.Split(string(data), "\n") {
			if url, ok := strings.CutPrefix(strings.TrimSpace(line), "runbook_url: "); ok {
				urls[url] = true
			}
		}
	}
	if alerts == 0 || len(urls) != alerts {
		t.Errorf("%d alerts have %d runbooks", alerts, len(urls))
	}
	for _, p := range readPages(t) {
		if p.path != "docs/operating.md" {
			continue
		}
		anchors := p.anchors()
		for url := range urls {
			if fragment, ok := strings.CutPrefix(url, guide); !ok || !anchors[fragment] {
				t.Errorf("%s leads nowhere", url)
			}
		}
		for heading := range anchors {
			if strings.HasPrefix(heading, "alert-") && !urls[guide+heading] {
				t.Errorf("there is no alert for the section %s", heading)
			}
		}
		return
	}
	t.Error("no docs/operating.md")
}
