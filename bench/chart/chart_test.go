package chart_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/bench/chart"
)

func sample() chart.Chart {
	return chart.Chart{
		Title: "Time & <tide>", X: "applications", Y: "seconds",
		Points: []float64{0, 100, 1000, 10_000},
		Lines: []chart.Line{
			{Name: "ours", Values: []float64{0.5, 3, 30, 300}},
			{Name: "theirs \"& theirs\"", Values: []float64{0.4, 40, 400, 4000}},
		},
		Format: func(v float64) string { return fmt.Sprintf("%g s", v) },
	}
}

// texts returns what stands in the text elements of a document, which must be
// well-formed.
func texts(t *testing.T, svg string) []string {
	t.Helper()
	var out []string
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for inText := false; ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				out = append(out, string(token))
			}
		}
	}
}

func TestChartNamesEverything(t *testing.T) {
	all := strings.Join(texts(t, sample().SVG()), "\n")
	for _, want := range []string{"Time & <tide>", "applications", "seconds", "ours", `theirs "& theirs"`, "100", "1,000", "10,000", "1 s", "10 s", "10000 s"} {
		if !strings.Contains("\n"+all+"\n", "\n"+want+"\n") {
			t.Errorf("no text %q in\n%s", want, all)
		}
	}
}

func TestChartIsTheSameEveryTime(t *testing.T) {
	if first, second := sample().SVG(), sample().SVG(); first != second {
		t.Error("two drawings of the same figures differ")
	}
}

func TestChartIsReadableOnADarkPage(t *testing.T) {
	svg := sample().SVG()
	if !strings.Contains(svg, "@media (prefers-color-scheme: dark)") {
		t.Error("no colours for a dark page")
	}
	if colors := regexp.MustCompile(`(fill|stroke)="#`).FindString(svg); colors != "" {
		t.Errorf("a colour outside of the style sheet: %s", colors)
	}
}

func TestDecadesAreEvenlySpaced(t *testing.T) {
	svg := sample().SVG()
	points := regexp.MustCompile(`class="line s0" points="([^"]*)"`).FindStringSubmatch(svg)
	if points == nil {
		t.Fatalf("no first line in\n%s", svg)
	}
	// The point at 0 has no place; 3, 30, 300 are a decade apart.
	var x, y [3]float64
	if n, err := fmt.Sscanf(points[1], "%f,%f %f,%f %f,%f", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]); n != 6 {
		t.Fatalf("%q: %v", points[1], err)
	}
	near := func(a, b float64) bool { return a-b < 0.11 && b-a < 0.11 }
	if !near(x[1]-x[0], x[2]-x[1]) || !near(y[0]-y[1], y[1]-y[2]) || y[1] >= y[0] {
		t.Errorf("points at %s", points[1])
	}
}

func TestLinesAreToldApartWithoutColour(t *testing.T) {
	svg := sample().SVG()
	if !strings.Contains(svg, "<circle") || strings.Count(svg, "<rect") < 2 || !strings.Contains(svg, "stroke-dasharray") {
		t.Error("two lines with the same markers or dashes")
	}
}

func TestChartOfNothing(t *testing.T) {
	c := sample()
	c.Lines = []chart.Line{{Name: "none"}, {Name: "zero", Values: []float64{0, 0, 0, 0}}}
	if svg := c.SVG(); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("there are values that are no numbers")
	}
	texts(t, chart.Chart{Format: c.Format}.SVG())
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", 1234567: "1,234,567", -100: "-100"} {
		if got := chart.Thousands(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func ExampleChart_SVG() {
	svg := chart.Chart{
		Title: "Time to settle", X: "applications", Y: "seconds",
		Points: []float64{100, 1000},
		Lines:  []chart.Line{{Name: "sutler", Values: []float64{3, 30}}},
		Format: func(v float64) string { return fmt.Sprintf("%g s", v) },
	}.SVG()
	fmt.Println(strings.HasPrefix(svg, "<svg "))
	// Output: true
}
