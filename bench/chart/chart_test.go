package chart_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
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

func TestLongNameIsFoldedAndNothingIsDrawnOverIt(t *testing.T) {
	c := sample()
	c.Lines[0].Name = "the one that has a name which does not go into one line"
	svg := c.SVG()
	parts := map[string]float64{}
	for _, m := range regexp.MustCompile(`<text x="590.0" y="([0-9.]+)">([^<]*)</text>`).FindAllStringSubmatch(svg, -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		parts[m[2]] = y
		if len(m[2]) > 29 {
			t.Errorf("%q is longer than there is room", m[2])
		}
	}
	first, second := parts["the one that has a name which"], parts["does not go into one line"]
	if first == 0 || second-first != 16 || len(parts) != 3 {
		t.Errorf("the names stand at %v", parts)
	}
}

// A seventh line looks like none of the others.
func TestSevenLinesAreToldApart(t *testing.T) {
	c := sample()
	c.Lines = nil
	for n := range 7 {
		c.Lines = append(c.Lines, chart.Line{Name: fmt.Sprint("line ", n), Values: []float64{1, 2, 3, 4}})
	}
	svg := c.SVG()
	seen := map[string]bool{}
	for n := range 7 {
		color := regexp.MustCompile(fmt.Sprintf(`\.s%d \{ stroke: (#[0-9a-f]{6}) \}`, n)).FindStringSubmatch(svg)
		dash := regexp.MustCompile(fmt.Sprintf(`class="line s%d"( stroke-dasharray="[^"]*")? points`, n)).FindStringSubmatch(svg)
		if color == nil || dash == nil {
			t.Fatalf("line %d has no colour, or is not drawn", n)
		}
		if seen[color[1]] || seen["dash"+dash[1]] {
			t.Errorf("line %d has another's colour %s or dashes %q", n, color[1], dash[1])
		}
		seen[color[1]], seen["dash"+dash[1]] = true, true
	}
}
