package figures_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/figures"
)

func sample() *figures.Report {
	return &figures.Report{
		Setting:    []figures.Fact{{Name: "Go", Value: "1.26"}},
		Properties: []figures.Property{{Name: "it holds", Holds: map[string]bool{"sutler": true}}},
		Figures: []figures.Figure{{
			ID: "settle", Title: "Time to settle", X: "applications", Y: "virtual seconds", Unit: "s", Exact: true,
			Points: []float64{10, 100, 1000},
			Lines: []figures.Line{
				{Name: "sutler", Values: []float64{0.45, 3.5, 29.7}},
				{Name: "serial loop", Values: []float64{0.4, 40, 400}},
			},
		}, {
			ID: "goroutines", Title: "Goroutines", X: "applications", Y: "goroutines",
			Points: []float64{1},
			Lines: []figures.Line{
				{Name: "sutler", Values: []float64{23}},
				{Name: "serial loop", Values: []float64{22}},
			},
		}},
	}
}

const docs = "../../docs"

// The committed page and charts are those of the committed figures: after a
// change, run `go run ./cmd/compare -render` in bench.
func TestCommittedDocumentsAreThoseOfTheFigures(t *testing.T) {
	r, err := figures.Read(filepath.Join(docs, "benchmarks", "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := r.Documents(docs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s is not what the figures say; run `go run ./cmd/compare -render` in bench", name)
		}
	}
	charts, err := filepath.Glob(filepath.Join(docs, "benchmarks", "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range charts {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is a chart of no figure", name)
		}
	}
}

// Every figure has a place in the page: none is left out because it does not
// please.
func TestEveryFigureIsShown(t *testing.T) {
	r, err := figures.Read(filepath.Join(docs, "benchmarks", "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(docs, "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if !strings.Contains(string(page), f.Table()) {
			t.Errorf("%s is not in BENCHMARKS.md", f.ID)
		}
		for i, c := range contenders.All() {
			if f.Lines[i].Name != c.Name() {
				t.Errorf("%s: line %d is %s, want %s", f.ID, i, f.Lines[i].Name, c.Name())
			}
		}
	}
	for _, section := range []string{"setting", "properties", "losses", "summary"} {
		if !strings.Contains(string(page), "<!-- figures: "+section+"-->") && !strings.Contains(string(page), "<!-- figures: "+section+" -->") {
			t.Errorf("BENCHMARKS.md has no %s", section)
		}
	}
}

func TestTableHasRatiosToTheFirstLine(t *testing.T) {
	want := `**Time to settle** (exact)

| applications: | 10 | 100 | 1,000 |
|---|---:|---:|---:|
| sutler | 450 ms | 3.5 s | 29.7 s |
| serial loop | 400 ms (0.89×) | 40 s (11×) | 400 s (13×) |

`
	if got := sample().Figures[0].Table(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFillReplacesWhatIsBetweenMarksAlone(t *testing.T) {
	const document = "# A\n<!-- figures: setting -->\nold\n<!-- /figures -->\nb <!-- figures: settle goroutines --><!-- /figures -->c\n"
	filled, err := sample().Fill(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# A\n", "| Go | 1.26 |\n<!-- /figures -->\nb ", "| serial loop | 22 (0.96×) |", "(benchmarks/settle.svg)", "<!-- /figures -->c\n"} {
		if !strings.Contains(filled, want) {
			t.Errorf("no %q in\n%s", want, filled)
		}
	}
	if strings.Contains(filled, "old") || strings.Contains(filled, "goroutines.svg") {
		t.Errorf("got\n%s", filled)
	}
	again, err := sample().Fill(filled)
	if err != nil || again != filled {
		t.Errorf("filled once more it is another one (%v):\n%s", err, again)
	}
}

func TestFillRefusesWhatItCannotFill(t *testing.T) {
	for _, document := range []string{
		"<!-- figures: nonsense --><!-- /figures -->",
		"<!-- figures: settle -->",
		"<!-- figures: settle",
	} {
		if _, err := sample().Fill(document); !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotFound) {
			t.Errorf("%q: %v", document, err)
		}
	}
}

// A difference counts as a loss when it is exact, or when it is large.
func TestLossesAreFoundByThemselves(t *testing.T) {
	filled, err := sample().Fill("<!-- figures: losses --><!-- /figures -->")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(filled, "| Time to settle | serial loop | 10 applications | 450 ms, not 400 ms: 1.12× |") {
		t.Errorf("a loss is not told of:\n%s", filled)
	}
	if strings.Contains(filled, "Goroutines") || strings.Contains(filled, "1,000") {
		t.Errorf("what is no loss is told of:\n%s", filled)
	}
}

func TestPropertiesSayNo(t *testing.T) {
	filled, err := sample().Fill("<!-- figures: properties --><!-- /figures -->")
	if err != nil || !strings.Contains(filled, "| it holds | yes | **no** |") {
		t.Errorf("%v:\n%s", err, filled)
	}
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	r, err := figures.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Figures[0].Table(), sample().Figures[0].Table(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := figures.Read(path + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := figures.Read(path); err == nil {
		t.Error("half a file was read")
	}
}

func TestReplaceKeepsTheOthers(t *testing.T) {
	r := sample()
	changed := sample().Figures[1]
	changed.Title = "Goroutines, counted again"
	r.Replace([]figures.Figure{changed, {ID: "new"}})
	var ids []string
	for _, f := range r.Figures {
		ids = append(ids, f.ID)
	}
	if got := strings.Join(ids, " "); got != "settle goroutines new" || r.Figures[1].Title != changed.Title {
		t.Errorf("got %s, %q", got, r.Figures[1].Title)
	}
	if _, err := r.Find("nowhere"); !errors.Is(err, errors.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "s", "0 s"}, {0.0000081, "s", "8.1 µs"}, {0.45, "s", "450 ms"}, {29.65, "s", "29.6 s"}, {4000, "s", "4,000 s"},
		{527.4, "B", "527 B"}, {13426.5, "B", "13.4 kB"}, {5.3e7, "B", "53 MB"}, {1.2e9, "B", "1.2 GB"},
		{12.0022, "", "12"}, {100000, "", "100,000"}, {0.25, "", "0.25"},
	} {
		if got := figures.Format(c.value, c.unit); got != c.want {
			t.Errorf("%v %s is written %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
