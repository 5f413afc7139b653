package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/bench/chart"
)

// Marks that stand around what is generated in a document. Between them is what
// the name says.
const (
	openMark  = "<!-- figures:"
	closeMark = "<!-- /figures -->"
)

// Fill returns the document with all that stands between marks replaced by what
// this report has for it. The name in the opening mark is setting, properties,
// summary, losses, a figure's ID, or several IDs with spaces between: a table
// each, and a chart each where a line can be drawn.
func (r *Report) Fill(document string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(document, openMark)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, rest, ok := strings.Cut(rest, "-->")
		if !ok {
			return "", errors.NotValidf("opening mark without an end")
		}
		_, rest, ok = strings.Cut(rest, closeMark)
		if !ok {
			return "", errors.NotValidf("mark %q without its closing one", strings.TrimSpace(name))
		}
		text, err := r.section(strings.TrimSpace(name))
		if err != nil {
			return "", errors.Trace(err)
		}
		fmt.Fprintf(&out, "%s%s-->\n%s%s", openMark, name, text, closeMark)
		document = rest
	}
}

// Documents returns what is made of this report in the folder of documents, by
// path: each chart, and BENCHMARKS.md, of which only what stands between marks
// changes.
func (r *Report) Documents(docs string) (map[string]string, error) {
	page := filepath.Join(docs, "BENCHMARKS.md")
	document, err := os.ReadFile(page)
	if err != nil {
		return nil, errors.Trace(err)
	}
	filled, err := r.Fill(string(document))
	if err != nil {
		return nil, errors.Annotate(err, page)
	}
	files := map[string]string{page: filled}
	for _, f := range r.Figures {
		if f.Drawable() {
			files[filepath.Join(docs, "benchmarks", f.ID+".svg")] = f.Chart().SVG()
		}
	}
	return files, nil
}

func (r *Report) section(name string) (string, error) {
	switch name {
	case "setting":
		return r.settingTable(), nil
	case "properties":
		return r.propertyTable(), nil
	case "losses":
		return r.losses(), nil
	case "summary":
		return r.summary(), nil
	}
	var out strings.Builder
	for id := range strings.FieldsSeq(name) {
		f, err := r.Find(id)
		if err != nil {
			return "", err
		}
		out.WriteString(f.Table())
		if f.Drawable() {
			fmt.Fprintf(&out, "![%s, by %s, on logarithmic axes](benchmarks/%s.svg)\n\n", f.Title, f.X, f.ID)
		}
	}
	return out.String(), nil
}

func (r *Report) settingTable() string {
	var out strings.Builder
	out.WriteString("| | |\n|---|---|\n")
	for _, fact := range r.Setting {
		fmt.Fprintf(&out, "| %s | %s |\n", fact.Name, fact.Value)
	}
	return out.String()
}

func (r *Report) propertyTable() string {
	if len(r.Figures) == 0 {
		return ""
	}
	var out strings.Builder
	lines := r.Figures[0].Lines
	out.WriteString("| |")
	for _, line := range lines {
		fmt.Fprintf(&out, " %s |", line.Name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(lines)) + "\n")
	for _, p := range r.Properties {
		fmt.Fprintf(&out, "| %s |", p.Name)
		for _, line := range lines {
			answer := "**no**"
			if p.Holds[line.Name] {
				answer = "yes"
			}
			fmt.Fprintf(&out, " %s |", answer)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// Table has a row for each contender and a column for each point, with the ratio
// to this project's own.
func (f Figure) Table() string {
	var out strings.Builder
	how := "measured; take it for its order"
	if f.Exact {
		how = "exact"
	}
	fmt.Fprintf(&out, "**%s** (%s)\n\n", f.Title, how)
	fmt.Fprintf(&out, "| %s: |", f.X)
	for _, p := range f.Points {
		fmt.Fprintf(&out, " %s |", chart.Thousands(p))
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", len(f.Points)) + "\n")
	for i, line := range f.Lines {
		fmt.Fprintf(&out, "| %s |", line.Name)
		for p, v := range line.Values {
			cell := Format(v, f.Unit)
			if r := ratio(v, f.Lines[0].Values[p]); i > 0 && r != "" {
				cell += " (" + r + ")"
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteString("\n")
	}
	out.WriteString("\n")
	return out.String()
}

// Drawable tells whether there is more than one point to draw a line through.
func (f Figure) Drawable() bool {
	above := 0
	for _, p := range f.Points {
		if p > 0 {
			above++
		}
	}
	return above > 2
}

// Chart is its picture.
func (f Figure) Chart() chart.Chart {
	c := chart.Chart{Title: f.Title, X: f.X, Y: f.Y, Points: f.Points, Format: func(v float64) string { return Format(v, f.Unit) }}
	for _, line := range f.Lines {
		c.Lines = append(c.Lines, chart.Line(line))
	}
	return c
}

// tolerance is by how much somebody else must be better for it to count.
func (f Figure) tolerance() float64 {
	if f.Exact {
		return 1.005
	}
	return 1.1
}

// contenders is how many lines are contenders; what follows them are parts.
const contenders = 5

// losses lists wherever another contender does better: nothing of it is chosen
// by hand. Contenders that are so in the same places and by the same share a row.
func (r *Report) losses() string {
	var out strings.Builder
	out.WriteString("| what | worse than | at | at worst |\n|---|---|---|---|\n")
	for _, f := range r.Figures {
		var cells []string
		names := map[string][]string{}
		for _, line := range f.Lines[1:min(len(f.Lines), contenders)] {
			cell := f.loss(line)
			if cell == "" {
				continue
			}
			if names[cell] == nil {
				cells = append(cells, cell)
			}
			names[cell] = append(names[cell], line.Name)
		}
		for _, cell := range cells {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", f.Title, strings.Join(names[cell], "; "), cell)
		}
	}
	return out.String()
}

// loss says at which points the line is better than this project's own and by
// how much at worst; empty where it is nowhere.
func (f Figure) loss(line Line) string {
	var at []string
	worst, where := 1.0, 0
	for p, own := range f.Lines[0].Values {
		v := line.Values[p]
		if v <= 0 || v*f.tolerance() >= own {
			continue
		}
		at = append(at, chart.Thousands(f.Points[p]))
		if own/v > worst {
			worst, where = own/v, p
		}
	}
	if len(at) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s | %s, not %s: %s", strings.Join(at, "; "), f.X,
		Format(f.Lines[0].Values[where], f.Unit), Format(line.Values[where], f.Unit), ratio(worst, 1))
}

// summary has the ratios at the largest size of the figures that tell most.
func (r *Report) summary() string {
	var out strings.Builder
	out.WriteString("| |")
	for _, line := range r.Figures[0].Lines {
		fmt.Fprintf(&out, " %s |", line.Name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---:|", len(r.Figures[0].Lines)) + "\n")
	for _, id := range []string{"settle", "hanging-worst", "hanging-start", "terminating", "pass-cpu", "memory-each", "storm-cpu", "kill"} {
		f, err := r.Find(id)
		if err != nil {
			continue
		}
		last := len(f.Points) - 1
		fmt.Fprintf(&out, "| %s; %s %s |", f.Title, chart.Thousands(f.Points[last]), f.X)
		for i, line := range f.Lines[:min(len(f.Lines), contenders)] {
			if i == 0 {
				fmt.Fprintf(&out, " %s |", Format(line.Values[last], f.Unit))
				continue
			}
			fmt.Fprintf(&out, " %s |", ratio(line.Values[last], f.Lines[0].Values[last]))
		}
		out.WriteString("\n")
	}
	return out.String()
}
