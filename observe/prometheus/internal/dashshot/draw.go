package dashshot

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/observe/prometheus/internal/dashboard"
)

// Line is one series with its name in the legend.
type Line struct {
	Name   string
	Points []Point
}

// Page is a page to take a picture of, and its size in pixels.
type Page struct {
	HTML          string
	Width, Height int
}

// Sizes in pixels.
const (
	column, rowUnit = 70, 31
	gap             = 8
	head            = 64
	left, bottom    = 58, 20
	legendLine      = 17
)

var label = regexp.MustCompile(`\{\{\s*([a-z_]+)\s*\}\}`)

// Legend fills the labels of a series into a format.
func Legend(format string, labels map[string]string) string {
	return label.ReplaceAllStringFunc(format, func(found string) string {
		return labels[label.FindStringSubmatch(found)[1]]
	})
}

// Draw draws the panels where the dashboard has them, with the lines of each.
func Draw(d *dashboard.Dashboard, lines map[int][]Line, from, to time.Time) Page {
	var body strings.Builder
	height := 0
	for _, p := range d.Panels {
		x, y := p.Grid.X*column, p.Grid.Y*rowUnit+head
		w, h := p.Grid.W*column-gap, p.Grid.H*rowUnit-gap
		height = max(height, y+h+gap)
		if p.Type == "row" {
			fmt.Fprintf(&body, `<div class=row style="left:%dpx;top:%dpx;width:%dpx">%s</div>`, x, y, w, html.EscapeString(p.Title))
			continue
		}
		fmt.Fprintf(&body, `<div class=panel style="left:%dpx;top:%dpx;width:%dpx;height:%dpx"><h2>%s</h2>`,
			x, y, w, h, html.EscapeString(p.Title))
		c := chart{panel: p, lines: lines[p.ID], from: from, to: to, width: w, height: h - 30}
		switch p.Type {
		case "stat":
			c.stat(&body)
		case "state-timeline":
			c.timeline(&body)
		default:
			c.series(&body)
		}
		body.WriteString("</div>\n")
	}
	width := 24*column + gap
	return Page{Width: width, Height: height, HTML: fmt.Sprintf(`<!doctype html><meta charset=utf-8><title>%s</title><style>
body{margin:0;background:#f4f5f5;font:12px "DejaVu Sans",sans-serif;color:#24292e;width:%dpx;height:%dpx;position:relative}
h1{position:absolute;left:%dpx;top:12px;font-size:22px;font-weight:normal;margin:0}
h1 small{font-size:13px;color:#6a7075;margin-left:16px}
h2{font-size:12.5px;font-weight:bold;margin:7px 0 0 10px;height:23px}
.row{position:absolute;margin-left:%dpx;font-size:15px;padding-top:4px}
.panel{position:absolute;margin-left:%dpx;background:#fff;border:1px solid #e4e7e7;border-radius:2px;box-sizing:border-box;overflow:hidden}
.value{font-size:32px;text-align:center;padding-top:8px}
.legend{margin:0 10px;line-height:%dpx;overflow:hidden}
.legend span{margin-right:12px;white-space:nowrap}
.legend i{display:inline-block;width:12px;height:4px;margin:0 5px 3px 0;border-radius:2px}
svg{display:block} text{font-size:11px;fill:#6a7075}
</style><h1>%s<small>%s</small></h1>
%s`, html.EscapeString(d.Title), width, height, gap, gap, gap, legendLine,
		html.EscapeString(d.Title), "an hour of an agent on fakes, from the start at 0:00", body.String())}
}

// chart is one panel that is drawn.
type chart struct {
	panel         dashboard.Panel
	lines         []Line
	from, to      time.Time
	width, height int
}

func (c chart) unit() string { return c.panel.Field.Defaults.Unit }

// stat draws the last value.
func (c chart) stat(out *strings.Builder) {
	if len(c.lines) == 0 {
		return
	}
	points := c.lines[0].Points
	value := points[len(points)-1].Value
	text, colour := show(value, c.unit()), "#24292e"
	if c.unit() == "s" {
		text = show(math.Round(value), "s")
	}
	defaults := c.panel.Field.Defaults
	for _, m := range defaults.Mappings {
		if mapped, ok := m.Options[fmt.Sprint(value)]; ok {
			text = mapped.Text
		}
	}
	if defaults.Thresholds != nil {
		for _, s := range defaults.Thresholds.Steps {
			if s.Value == nil || value >= *s.Value {
				colour = map[string]string{"green": "#2f9e44", "orange": "#e8820c", "red": "#d6336c", "blue": "#1c7ed6"}[s.Color]
			}
		}
	}
	fmt.Fprintf(out, `<div class=value style="color:%s">%s</div>`, colour, html.EscapeString(text))
}

func palette(i int) string {
	colours := []string{
		"#37872d", "#e0b400", "#1f60c4", "#e0752d", "#c4162a", "#8f3bb8", "#20a4a4",
		"#7a5230", "#96d98d", "#5794f2", "#ff7383", "#b877d9", "#606a73",
	}
	return colours[i%len(colours)]
}

// colour is that of a line.
func (c chart) colour(i int) string {
	for _, o := range c.panel.Field.Overrides {
		if o.Matcher.ID == "byName" && o.Matcher.Options == c.lines[i].Name {
			return o.Properties[0].Value.Fixed
		}
	}
	return palette(i)
}

// legend names the lines, in as many lines of text as they need.
func (c chart) legend(out *strings.Builder) (lines int) {
	width, lines := 0, 1
	var spans strings.Builder
	for i, l := range c.lines {
		w := 29 + len(l.Name)*7
		if width += w; width > c.width-20 {
			width = w
			lines++
		}
		fmt.Fprintf(&spans, `<span><i style="background:%s"></i>%s</span> `, c.colour(i), html.EscapeString(l.Name))
	}
	fmt.Fprintf(out, `<div class=legend style="height:%dpx">%s</div>`, lines*legendLine, spans.String())
	return lines
}

// frame begins the picture above the legend, with the axis of time.
func (c chart) frame(legendLines int) (svg *strings.Builder, w, h float64) {
	height := c.height - legendLines*legendLine - 8
	w, h = float64(c.width-left-14), float64(height-bottom-4)
	svg = new(strings.Builder)
	fmt.Fprintf(svg, `<svg width="%d" height="%d"><g transform="translate(%d,4)">`, c.width, height, left)
	every := 10 * time.Minute
	if w < 420 {
		every = 15 * time.Minute
	}
	for at := time.Duration(0); at <= c.to.Sub(c.from); at += every {
		x := w * at.Seconds() / c.to.Sub(c.from).Seconds()
		fmt.Fprintf(svg, `<line x1="%.1f" x2="%.1f" y1="0" y2="%.1f" stroke="#edf0f0"/><text x="%.1f" y="%.1f" text-anchor="middle">%d:%02d</text>`,
			x, x, h, x, h+15, int(at.Hours()), int(at.Minutes())%60)
	}
	return svg, w, h
}

func (c chart) x(at time.Time, w float64) float64 {
	return w * at.Sub(c.from).Seconds() / c.to.Sub(c.from).Seconds()
}

// series draws lines, stacked if the panel says so.
func (c chart) series(out *strings.Builder) {
	var legend strings.Builder
	svg, w, h := c.frame(c.legend(&legend))
	custom := c.panel.Field.Defaults.Custom
	stacked := custom != nil && custom.Stacking != nil

	base := make(map[time.Time]float64)
	tops := make([][]Point, len(c.lines))
	low, high := 0.0, 0.0
	for i, l := range c.lines {
		for _, p := range l.Points {
			value := p.Value
			if stacked {
				value += base[p.Time]
				base[p.Time] = value
			}
			tops[i] = append(tops[i], Point{Time: p.Time, Value: value})
			low, high = min(low, value), max(high, value)
		}
	}
	ticks := axis(low, high, c.unit())
	low, high = min(low, ticks[0]), max(high, ticks[len(ticks)-1])
	y := func(value float64) float64 { return h - h*(value-low)/(high-low) }
	for _, tick := range ticks {
		fmt.Fprintf(svg, `<line x1="0" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#e4e7e7"/><text x="-6" y="%.1f" text-anchor="end">%s</text>`,
			w, y(tick), y(tick), y(tick)+4, html.EscapeString(show(tick, c.unit())))
	}
	// The highest of a stack first, so that those below lie over it.
	for i := range tops {
		if stacked {
			i = len(tops) - 1 - i
		}
		for _, run := range runs(tops[i]) {
			var path strings.Builder
			for n, p := range run {
				fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[n == 0], c.x(p.Time, w), y(p.Value))
			}
			if len(run) == 1 {
				fmt.Fprintf(&path, "h2")
			}
			if stacked {
				fmt.Fprintf(svg, `<path d="%sL%.1f %.1fL%.1f %.1fZ" fill="%s" fill-opacity="1"/>`, path.String(),
					c.x(run[len(run)-1].Time, w), y(0), c.x(run[0].Time, w), y(0), tint(c.colour(i)))
			}
			fmt.Fprintf(svg, `<path d="%s" fill="none" stroke="%s" stroke-width="1.4"/>`, path.String(), c.colour(i))
		}
	}
	svg.WriteString("</g></svg>")
	out.WriteString(svg.String())
	out.WriteString(legend.String())
}

// runs cuts a line where points are missing.
func runs(points []Point) (out [][]Point) {
	for i, p := range points {
		if i == 0 || p.Time.Sub(points[i-1].Time) > time.Minute {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], p)
	}
	return out
}

// timeline draws when each line was there.
func (c chart) timeline(out *strings.Builder) {
	svg, w, h := c.frame(0)
	// Names stand in the chart, which has little else.
	lane := h / float64(max(len(c.lines), 1))
	for i, l := range c.lines {
		top := lane * float64(i)
		for _, run := range runs(l.Points) {
			x := c.x(run[0].Time, w)
			end := c.x(run[len(run)-1].Time, w)
			fmt.Fprintf(svg, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" fill="%s"/>`,
				x, top+1.5, max(end-x, 3), lane-3, tint(c.colour(i)))
			anchor, at := "start", max(x, 0)+5
			if x > w*0.8 {
				anchor, at = "end", x-5
			} else if end-x < float64(len(l.Name)*7) {
				at = end + 5
			}
			fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" text-anchor="%s" style="fill:#24292e">%s</text>`,
				at, top+lane/2+4, anchor, html.EscapeString(l.Name))
		}
	}
	svg.WriteString("</g></svg>")
	out.WriteString(svg.String())
}

// tint is a colour, half white.
func tint(colour string) string {
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	if err != nil {
		return colour
	}
	half := func(shift uint) uint64 { return (n>>shift&0xff + 0xff) / 2 }
	return fmt.Sprintf("#%02x%02x%02x", half(16), half(8), half(0))
}

// axis returns the values to mark between two, round ones of the unit.
func axis(low, high float64, unit string) []float64 {
	if high-low < 1e-9 {
		high = low + 1
	}
	steps := []float64{}
	for power := 1e-4; power < 1e9; power *= 10 {
		steps = append(steps, power, 2*power, 5*power)
	}
	if unit == "s" && high-low > 60 {
		steps = []float64{15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 6 * 3600, 86400, 10 * 86400, 100 * 86400}
	}
	at, _ := slices.BinarySearch(steps, (high-low)/4.5)
	width := steps[min(at, len(steps)-1)]
	var ticks []float64
	for n := math.Floor(low/width + 1e-9); ; n++ {
		ticks = append(ticks, n*width)
		if n*width >= high-1e-9 {
			return ticks
		}
	}
}

// show is a value in its unit.
func show(value float64, unit string) string {
	plain := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	switch {
	case unit == "percentunit":
		return fmt.Sprintf("%.0f%%", value*100)
	case unit == "ops":
		return plain(value) + "/s"
	case unit == "s" && value != 0:
		sign, v := "", value
		if v < 0 {
			sign, v = "-", -v
		}
		switch {
		case v < 1:
			return sign + plain(v*1000) + " ms"
		case v < 60:
			return sign + plain(v) + " s"
		case v < 3600:
			return sign + plain(v/60) + " min"
		case v < 2*86400:
			return sign + plain(v/3600) + " h"
		}
		return sign + plain(v/86400) + " d"
	case math.Abs(value) >= 1000:
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return plain(value)
}
