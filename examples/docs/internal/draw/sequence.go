package draw

import (
	"fmt"
	"slices"
	"strings"
)

// columnWidth is how far apart actors are.
const columnWidth = 270.0

// sequence is one as far as it is drawn.
type sequence struct {
	c      *canvas
	actors []actor
	y      float64
	frames []frame
}

type actor struct{ id, name string }

// frame is one that is not closed yet.
type frame struct {
	top   float64
	depth int
}

func drawSequence(c *canvas, all []line) error {
	s := &sequence{c: c}
	c.title = titleOf(all[0])
	body := all[1:]
	for len(body) > 0 && body[0].words[0] == "actor" {
		if len(body[0].words) < 3 {
			return body[0].wrong("an actor without a name")
		}
		s.actors = append(s.actors, actor{body[0].words[1], strings.Join(body[0].words[2:], " ")})
		body = body[1:]
	}
	if len(s.actors) < 2 {
		return all[0].wrong("fewer than two actors")
	}
	c.width = margin*2 + columnWidth*float64(len(s.actors))
	s.y = margin + lineHeight
	c.text(c.width/2, s.y, "middle", ink, "bold", c.title)
	s.y += 20
	top := s.y
	s.heads()
	for _, l := range body {
		if err := s.line(l); err != nil {
			return err
		}
	}
	if len(s.frames) > 0 {
		return all[len(all)-1].wrong("a frame without an end")
	}
	s.y += 10
	for i := range s.actors {
		fmt.Fprintf(&c.back, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="2 4"/>`+"\n", s.x(i), top, s.x(i), s.y, faint)
	}
	s.heads()
	c.height = s.y + margin
	return nil
}

func titleOf(l line) string {
	title := strings.Join(l.words[1:], " ")
	if l.rest != "" {
		title += ": " + l.rest
	}
	return title
}

// x is where an actor's line is.
func (s *sequence) x(actor int) float64 { return margin + columnWidth*(float64(actor)+0.5) }

func (s *sequence) heads() {
	for i, a := range s.actors {
		w := widest([]string{a.name})*1.1 + 36
		s.c.rect(s.x(i)-w/2, s.y, w, 30, 4, boxFill, boxLine)
		s.c.text(s.x(i), s.y+20, "middle", ink, "bold", a.name)
	}
	s.y += 30
}

func (s *sequence) line(l line) error {
	switch l.words[0] {
	case "note":
		return s.note(l)
	case "crash":
		s.band(wrap("Crash here: "+l.rest, s.c.width-4*margin), crashFill, crashLine)
	case "frame":
		s.frames = append(s.frames, frame{s.y + 12, len(s.frames)})
		s.heading(l)
	case "else":
		if len(s.frames) == 0 {
			return l.wrong("else without a frame")
		}
		inset := s.inset(len(s.frames) - 1)
		fmt.Fprintf(&s.c.back, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="6 4"/>`+"\n",
			inset, s.y+12, s.c.width-inset, s.y+12, faint)
		s.heading(l)
	case "end":
		if len(s.frames) == 0 {
			return l.wrong("end without a frame")
		}
		f := s.frames[len(s.frames)-1]
		s.frames = s.frames[:len(s.frames)-1]
		s.y += 12
		inset := s.inset(f.depth)
		fmt.Fprintf(&s.c.back, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="none" stroke="%s"/>`+"\n",
			inset, f.top, s.c.width-2*inset, s.y-f.top, faint)
	default:
		return s.message(l)
	}
	return nil
}

func (s *sequence) inset(depth int) float64 { return margin/2 + 6*float64(depth) }

// heading is what a frame, or a part of it, is about.
func (s *sequence) heading(l line) {
	text := strings.Join(l.words[1:], " ")
	if l.rest != "" {
		text += ": " + l.rest
	}
	s.y += 12
	s.c.text(s.inset(len(s.frames)-1)+8, s.y+17, "start", faint, "bold", wrap(text, s.c.width-4*margin)...)
	s.y += lineHeight * float64(len(wrap(text, s.c.width-4*margin)))
}

func (s *sequence) message(l line) error {
	if len(l.words) != 3 || l.words[1] != "->" && l.words[1] != "-->" {
		return l.wrong("no message")
	}
	from, to := s.index(l.words[0]), s.index(l.words[2])
	if from < 0 || to < 0 || from == to {
		return l.wrong("a message between actors that are not there")
	}
	a, b := s.x(from), s.x(to)
	text := wrap(l.rest, max(a, b)-min(a, b)-20)
	s.y += 14
	s.c.label((a+b)/2, s.y+lineHeight-4, text...)
	s.y += lineHeight*float64(len(text)) + 6
	dash := ""
	if l.words[1] == "-->" {
		dash = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(&s.c.front, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.4" marker-end="url(#arrow)"%s/>`+"\n",
		a, s.y, b, s.y, ink, dash)
	return nil
}

func (s *sequence) note(l line) error {
	if len(l.words) == 1 {
		s.band(wrap(l.rest, s.c.width-4*margin), noteFill, noteLine)
		return nil
	}
	first, last := s.index(l.words[1]), s.index(l.words[len(l.words)-1])
	if first < 0 || last < 0 {
		return l.wrong("a note for an actor that is not there")
	}
	from, to := s.x(min(first, last))-columnWidth/2+12, s.x(max(first, last))+columnWidth/2-12
	text := wrap(l.rest, to-from-16)
	h := lineHeight*float64(len(text)) + 12
	s.y += 12
	s.c.rect(from, s.y, to-from, h, 3, noteFill, noteLine)
	s.c.text((from+to)/2, s.y+18, "middle", ink, "normal", text...)
	s.y += h
	return nil
}

// band is across all actors.
func (s *sequence) band(text []string, fill, stroke string) {
	h := lineHeight*float64(len(text)) + 12
	s.y += 12
	s.c.rect(1.5*margin, s.y, s.c.width-3*margin, h, 3, fill, stroke)
	s.c.text(s.c.width/2, s.y+18, "middle", ink, "normal", text...)
	s.y += h
}

func (s *sequence) index(id string) int {
	return slices.IndexFunc(s.actors, func(a actor) bool { return a.id == id })
}
