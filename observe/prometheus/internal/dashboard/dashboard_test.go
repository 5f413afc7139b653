package dashboard_test

import (
	"flag"
	"os"
	"testing"

	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashboard"
)

var update = flag.Bool("update", false, "write dashboard.json")

const file = "../../dashboard.json"

func TestTheDashboardIsTheOneThatIsMade(t *testing.T) {
	want, err := dashboard.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("dashboard.json differs from what panels.go makes: go test ./prometheus/internal/dashboard -update")
	}
}

func TestPanelsFillTheGridAndDoNotOverlap(t *testing.T) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dashboard.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("id %d of %q is none, or there twice", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Grid.X+p.Grid.W > 24 {
			t.Errorf("%q sticks out", p.Title)
		}
		for x := range p.Grid.W {
			for y := range p.Grid.H {
				at := [2]int{p.Grid.X + x, p.Grid.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
		for x := range 24 {
			if p.Grid.Y > 0 && taken[[2]int{x, p.Grid.Y - 1}] == "" {
				t.Errorf("there is a gap above %q", p.Title)
				break
			}
		}
	}
}
