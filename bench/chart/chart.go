// Package chart draws line charts with logarithmic axes as SVG.
//
// It is written by hand rather than taken from a library: the same figures must
// give the same bytes on every machine, so that a test can hold that a committed
// chart is up to date; and a chart must be readable on a light and on a dark
// page, which takes a style sheet that plotting libraries do not write.
//
// Lines are told apart by colour, by the shape of their markers and by their
// dashes, and are named in a legend.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Chart is what is drawn. Values that are not above zero have no place on a
// logarithmic axis and are left out.
type Chart struct {
	Title, X, Y string
	// Points are the values of X, rising.
	Points []float64
	Lines  []Line
	// Format says how a value of Y is written at the axis.
	Format func(float64) string
}

// Line is one line.
type Line struct {
	Name   string
	Values []float64
}

// Measures, in pixels.
const (
	width, height            = 784, 440
	left, right, top, bottom = 108, 250, 48, 64
	markerSize, markerGrowth = 4.5, 1.2
	legendLine               = 44
	nameLine                 = 16 // between the lines of a name that takes two
	nameLetters              = 29 // that have room beside the chart
)

// colors are those of Okabe and Ito, which people who see colours differently
// can tell apart; on a dark page they are a little lighter.
func colors() (light, dark []string) {
	return []string{"#0072b2", "#d55e00", "#009e73", "#b5568c", "#8a6d00", "#555555", "#a40e26"},
		[]string{"#56b4e9", "#ff8a3d", "#2fd0a0", "#e79ac6", "#e6c229", "#bbbbbb", "#ff7b84"}
}

func dashes() []string { return []string{"", "7 4", "2 4", "10 3 2 3", "4 2", "1 3", "12 4"} }

// SVG draws the chart.
func (c Chart) SVG() string {
	d := &drawing{chart: c}
	d.scale()
	d.head()
	d.axes()
	d.lines()
	d.legend()
	d.printf("</svg>\n")
	return d.out.String()
}

// drawing is a chart in the making.
type drawing struct {
	chart                  Chart
	out                    strings.Builder
	minX, maxX, minY, maxY float64 // decimal logarithms
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.out, format, args...) }

// scale fits the axes to the values: X to the points, Y to whole decades.
func (d *drawing) scale() {
	d.minX, d.maxX = bounds(d.chart.Points)
	if d.maxX-d.minX < 1 {
		d.minX, d.maxX = math.Floor(d.minX), math.Floor(d.minX)+1
	}
	var values []float64
	for _, line := range d.chart.Lines {
		values = append(values, line.Values...)
	}
	low, high := bounds(values)
	d.minY, d.maxY = math.Floor(low+1e-9), math.Ceil(high-1e-9)
	if d.maxY-d.minY < 1 {
		d.maxY = d.minY + 1
	}
}

// bounds returns the logarithms of the least and the greatest value.
func bounds(values []float64) (low, high float64) {
	values = slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v <= 0 })
	if len(values) == 0 {
		return 0, 1
	}
	return math.Log10(slices.Min(values)), math.Log10(slices.Max(values))
}

func (d *drawing) x(v float64) float64 {
	// Half a marker's room at either end.
	const room = 18
	return left + room + (math.Log10(v)-d.minX)/(d.maxX-d.minX)*(width-left-right-2*room)
}

func (d *drawing) y(v float64) float64 {
	return height - bottom - (math.Log10(v)-d.minY)/(d.maxY-d.minY)*(height-top-bottom)
}

func (d *drawing) head() {
	light, dark := colors()
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(d.chart.Title))
	d.printf("<style>\n")
	d.printf("text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328 }\n")
	d.printf(".title { font-size: 15px; font-weight: 600 }\n.end { font-size: 11.5px; opacity: 0.75 }\n.ground { fill: #ffffff }\n")
	d.printf(".grid { stroke: #d8dee4; stroke-width: 1 }\n.fine { stroke: #eef1f4; stroke-width: 1 }\n.axis { stroke: #656d76; stroke-width: 1 }\n")
	d.printf(".line { fill: none; stroke-width: 2.2 }\n")
	for i, color := range light {
		d.printf(".s%d { stroke: %s } .m%d { fill: %s }\n", i, color, i, color)
	}
	d.printf("@media (prefers-color-scheme: dark) {\n")
	d.printf("text { fill: #e6edf3 }\n.ground { fill: #0d1117 }\n.grid { stroke: #30363d }\n.fine { stroke: #1b2027 }\n.axis { stroke: #8b949e }\n")
	for i, color := range dark {
		d.printf(".s%d { stroke: %s } .m%d { fill: %s }\n", i, color, i, color)
	}
	d.printf("}\n</style>\n")
	d.printf(`<rect class="ground" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	d.printf(`<text class="title" x="%d" y="27">%s</text>`+"\n", 16, html.EscapeString(d.chart.Title))
}

func (d *drawing) axes() {
	decades := int(math.Round(d.maxY - d.minY))
	for e := range decades + 1 {
		v := math.Pow(10, d.minY+float64(e))
		y := d.y(v)
		if decades <= 4 && e < decades {
			for n := 2.0; n < 10; n++ {
				d.printf(`<line class="fine" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, width-right, d.y(n*v), d.y(n*v))
			}
		}
		d.printf(`<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", left, width-right, y, y)
		d.printf(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y+4.5, html.EscapeString(d.chart.Format(v)))
	}
	for _, v := range d.chart.Points {
		if v <= 0 {
			continue
		}
		d.printf(`<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", d.x(v), d.x(v), top, height-bottom)
		d.printf(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", d.x(v), height-bottom+23, Thousands(v))
	}
	d.printf(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", left, width-right, height-bottom, height-bottom)
	d.printf(`<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", left, left, top, height-bottom)
	d.printf(`<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-14, html.EscapeString(d.chart.X))
	d.printf(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+height-bottom)/2, html.EscapeString(d.chart.Y))
}

// lines draws the first line last, so that it is on top.
func (d *drawing) lines() {
	for i, line := range slices.Backward(d.chart.Lines) {
		var path []string
		for p, v := range line.Values {
			if v > 0 && d.chart.Points[p] > 0 {
				path = append(path, fmt.Sprintf("%.1f,%.1f", d.x(d.chart.Points[p]), d.y(v)))
			}
		}
		d.printf(`<polyline class="line s%d"%s points="%s"/>`+"\n", i, dash(i), strings.Join(path, " "))
		for p, v := range line.Values {
			if v > 0 && d.chart.Points[p] > 0 {
				d.marker(i, d.x(d.chart.Points[p]), d.y(v))
			}
		}
	}
}

func dash(i int) string {
	dash := dashes()[i%len(dashes())]
	if dash == "" {
		return ""
	}
	return fmt.Sprintf(` stroke-dasharray="%s"`, dash)
}

// marker draws the shape of that line. Each is a little larger than the ones
// that are drawn on top of it, so that where lines coincide all of them are seen.
func (d *drawing) marker(i int, x, y float64) {
	s := markerSize + markerGrowth*float64(i)
	switch i % 7 {
	case 0:
		d.printf(`<circle class="m%d" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", i, x, y, s)
	case 1:
		d.printf(`<rect class="m%d" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n", i, x-s+1, y-s+1, 2*s-2, 2*s-2)
	case 2:
		y -= (s - 1) / 3 // its middle is where the value is
		d.printf(`<polygon class="m%d" points="%.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`+"\n", i, x, y-s-1, x+s+1, y+s, x-s-1, y+s)
	case 3:
		d.printf(`<polygon class="m%d" points="%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`+"\n", i, x, y-s, x+s, y, x, y+s, x-s, y)
	case 4:
		y += (s - 1) / 3
		d.printf(`<polygon class="m%d" points="%.1f,%.1f %.1f,%.1f %.1f,%.1f"/>`+"\n", i, x, y+s+1, x+s+1, y-s, x-s-1, y-s)
	case 5:
		d.printf(`<path class="s%d" stroke-width="3" d="M%.1f %.1fL%.1f %.1fM%.1f %.1fL%.1f %.1f"/>`+"\n", i, x-s, y-s, x+s, y+s, x-s, y+s, x+s, y-s)
	default:
		d.printf(`<path class="s%d" stroke-width="3" d="M%.1f %.1fL%.1f %.1fM%.1f %.1fL%.1f %.1f"/>`+"\n", i, x-s, y, x+s, y, x, y-s, x, y+s)
	}
}

// legend names the lines in the order in which they end, the highest first, so
// that names stand near their lines, and says what they end at.
func (d *drawing) legend() {
	order := make([]int, len(d.chart.Lines))
	for i := range order {
		order[i] = i
	}
	last := func(i int) float64 {
		values := d.chart.Lines[i].Values
		if len(values) == 0 {
			return 0
		}
		return values[len(values)-1]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case last(a) > last(b):
			return -1
		case last(a) < last(b):
			return 1
		}
		return 0
	})
	x, y := float64(width-right+16), float64(top+14)
	for _, i := range order {
		d.printf(`<line class="line s%d"%s x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", i, dash(i), x, x+32, y, y)
		d.marker(i, x+16, y)
		for n, part := range fold(d.chart.Lines[i].Name, nameLetters) {
			if n > 0 {
				y += nameLine
			}
			d.printf(`<text x="%.1f" y="%.1f">%s</text>`+"\n", x+40, y+4.5, html.EscapeString(part))
		}
		if len(d.chart.Points) > 0 && last(i) > 0 {
			d.printf(`<text class="end" x="%.1f" y="%.1f">%s at %s</text>`+"\n", x+40, y+20,
				html.EscapeString(d.chart.Format(last(i))), Thousands(d.chart.Points[len(d.chart.Points)-1]))
		}
		y += legendLine
	}
}

// fold breaks a text at spaces into lines of so many letters at most; a longer word
// has a line of its own.
func fold(text string, letters int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > letters {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// Thousands writes a whole number with a comma before every three digits.
func Thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
