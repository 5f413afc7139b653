package draw

import (
	"fmt"
	"math"
	"strconv"
)

// How far apart states are, and how big.
const (
	gridWidth  = 310.0
	gridHeight = 140.0
	boxWidth   = 170.0
)

// box is a state.
type box struct {
	x, y, w, h float64 // x and y are its middle
}

func drawStates(c *canvas, all []line) error {
	c.title = titleOf(all[0])
	boxes := map[string]box{}
	for _, l := range all[1:] {
		if l.words[0] != "state" {
			continue
		}
		if err := addBox(c, boxes, l); err != nil {
			return err
		}
	}
	c.width, c.height = c.width+boxWidth/2+2*margin, c.height+60
	c.text(c.width/2, margin+lineHeight, "middle", ink, "bold", c.title)
	for _, l := range all[1:] {
		if l.words[0] == "state" {
			continue
		}
		if err := addEdge(c, boxes, l); err != nil {
			return err
		}
	}
	return nil
}

func addBox(c *canvas, boxes map[string]box, l line) error {
	if len(l.words) < 4 {
		return l.wrong("a state without a place")
	}
	column, err1 := strconv.ParseFloat(l.words[2], 64)
	row, err2 := strconv.ParseFloat(l.words[3], 64)
	if err1 != nil || err2 != nil {
		return l.wrong("a place that is no number")
	}
	name := l.words[1]
	text := wrap(l.rest, boxWidth-12)
	b := box{
		x: margin*2 + boxWidth/2 + column*gridWidth, y: 90 + row*gridHeight,
		w: boxWidth, h: 28 + lineHeight*float64(len(text)),
	}
	fill := boxFill
	if len(l.words) > 4 && l.words[4] == "end" {
		fill = endFill
	}
	boxes[name] = b
	c.width, c.height = max(c.width, b.x), max(c.height, b.y)
	c.rect(b.x-b.w/2, b.y-b.h/2, b.w, b.h, 8, fill, boxLine)
	c.text(b.x, b.y-b.h/2+19, "middle", ink, "bold", name)
	c.text(b.x, b.y-b.h/2+19+lineHeight, "middle", faint, "normal", text...)
	return nil
}

func addEdge(c *canvas, boxes map[string]box, l line) error {
	if len(l.words) < 3 || l.words[1] != "->" {
		return l.wrong("neither a state nor a way between two")
	}
	from, ok1 := boxes[l.words[0]]
	to, ok2 := boxes[l.words[2]]
	if !ok1 || !ok2 {
		return l.wrong("a way between states that are not there")
	}
	bend, at := 0.0, 0.5
	for options := l.words[3:]; len(options) > 0; options = options[2:] {
		if len(options) == 1 {
			return l.wrong("an option without a number")
		}
		number, err := strconv.ParseFloat(options[1], 64)
		switch {
		case err != nil:
			return l.wrong("an option that is no number")
		case options[0] == "bend":
			bend = number
		case options[0] == "at":
			at = number
		default:
			return l.wrong("an option that is not known")
		}
	}
	// The middle of the way, to the left of the straight one by the bend.
	dx, dy := to.x-from.x, to.y-from.y
	length := max(math.Hypot(dx, dy), 1)
	mx, my := (from.x+to.x)/2+dy/length*bend, (from.y+to.y)/2-dx/length*bend
	x1, y1 := from.edge(mx, my)
	x2, y2 := to.edge(mx, my)
	// The control point of a curve through that middle.
	cx, cy := 2*mx-(x1+x2)/2, 2*my-(y1+y2)/2
	fmt.Fprintf(&c.back, `<path d="M%.1f %.1fQ%.1f %.1f %.1f %.1f" fill="none" stroke="%s" stroke-width="1.4" marker-end="url(#arrow)"/>`+"\n",
		x1, y1, cx, cy, x2, y2, ink)
	if l.rest != "" {
		text := wrap(l.rest, 120)
		rest := 1 - at
		x := rest*rest*x1 + 2*rest*at*cx + at*at*x2
		y := rest*rest*y1 + 2*rest*at*cy + at*at*y2
		c.label(x, y+4-lineHeight*float64(len(text)-1)/2, text...)
	}
	return nil
}

// edge is where the way from the middle of a box to a point leaves the box.
func (b box) edge(x, y float64) (float64, float64) {
	dx, dy := x-b.x, y-b.y
	if dx == 0 && dy == 0 {
		return b.x, b.y
	}
	t := math.Inf(1)
	if dx != 0 {
		t = min(t, b.w/2/math.Abs(dx))
	}
	if dy != 0 {
		t = min(t, b.h/2/math.Abs(dy))
	}
	return b.x + dx*t, b.y + dy*t
}
