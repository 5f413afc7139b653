package draw

import (
	"fmt"
	"strings"

	"github.com/juju/errors"
)

// Sizes in pixels. Letters are as wide as those of common fonts without serifs, on
// average; wider ones have room to spare.
const (
	fontSize   = 13.0
	letter     = 6.9
	lineHeight = 17.0
	margin     = 20.0
)

// Colours, on white: a page may be dark.
const (
	ink       = "#1b1f24"
	faint     = "#6a737d"
	boxFill   = "#eef4fb"
	boxLine   = "#3b6ea5"
	endFill   = "#f1f1f1"
	noteFill  = "#fff8dc"
	noteLine  = "#c9a227"
	crashFill = "#fdecea"
	crashLine = "#c0392b"
)

// SVG draws a text, which name is for errors.
func SVG(name, text string) ([]byte, error) {
	kind, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	var draw func(*canvas, []line) error
	switch kind {
	case "sequence":
		draw = drawSequence
	case "states":
		draw = drawStates
	default:
		return nil, errors.NotValidf("%s: picture of %q", name, kind)
	}
	c := &canvas{}
	if err := draw(c, lines(text)); err != nil {
		return nil, errors.Annotate(err, name)
	}
	return c.bytes(), nil
}

// line is one of the text, without comments and empty ones.
type line struct {
	number int
	// head is what stands before the colon, and rest what stands after it.
	words []string
	rest  string
}

func lines(text string) []line {
	var out []line
	number := 0
	for s := range strings.Lines(text) {
		number++
		s = strings.TrimSpace(s)
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		head, rest, _ := strings.Cut(s, ": ")
		out = append(out, line{number, strings.Fields(head), strings.TrimSpace(rest)})
	}
	return out
}

func (l line) wrong(what string) error { return errors.NotValidf("line %d: %s", l.number, what) }

// canvas collects what is drawn, the back first.
type canvas struct {
	width, height float64
	title         string
	back, front   strings.Builder
}

func (c *canvas) bytes() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" `+
		`font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="%.0f">`+"\n", c.width, c.height, c.width, c.height, fontSize)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(c.title))
	fmt.Fprintf(&b, `<defs>`+
		`<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse">`+
		`<path d="M0 0L10 5L0 10z" fill="%s"/></marker></defs>`+"\n", ink)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	b.WriteString(c.back.String())
	b.WriteString(c.front.String())
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// rect draws a box.
func (c *canvas) rect(x, y, w, h, radius float64, fill, stroke string) {
	fmt.Fprintf(&c.front, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.0f" fill="%s" stroke="%s"/>`+"\n", x, y, w, h, radius, fill, stroke)
}

// text writes lines, the first at y; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, colour, weight string, text ...string) {
	for i, s := range text {
		fmt.Fprintf(&c.front, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s" font-weight="%s" `+
			`stroke="#ffffff" stroke-width="%d" paint-order="stroke">%s</text>`+"\n",
			x, y+float64(i)*lineHeight, anchor, colour, weight, halo(anchor), escape(s))
	}
}

// halo keeps a heading apart from the lines that it crosses. In a box there are none.
func halo(anchor string) int {
	if anchor == "start" {
		return 4
	}
	return 0
}

// label writes lines that keep what is below them at a distance.
func (c *canvas) label(x, y float64, text ...string) {
	for i, s := range text {
		fmt.Fprintf(&c.front, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="%s" `+
			`stroke="#ffffff" stroke-width="5" stroke-linejoin="round" paint-order="stroke">%s</text>`+"\n",
			x, y+float64(i)*lineHeight, ink, escape(s))
	}
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

// wrap breaks a text into lines that fit a width.
func wrap(text string, width float64) []string {
	most := int(width / letter)
	var out []string
	var current string
	for _, word := range strings.Fields(text) {
		switch {
		case current == "":
			current = word
		case len(current)+1+len(word) <= most:
			current += " " + word
		default:
			out = append(out, current)
			current = word
		}
	}
	if current != "" {
		out = append(out, current)
	}
	return out
}

func widest(lines []string) float64 {
	most := 0
	for _, s := range lines {
		most = max(most, len(s))
	}
	return float64(most) * letter
}
