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
