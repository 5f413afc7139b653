package demo

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// screen tells the story: on a terminal as lines that scroll above tables that
// are drawn anew in place, elsewhere as plain lines, one for each application
// and container that changed. One goroutine uses it.
type screen struct {
	out    io.Writer
	fd     int // of the terminal
	live   bool
	colour bool

	drawn      int // lines of the tables on the terminal
	rows       []row
	containers []containerRow
	current    string            // the step that is being played
	told       map[string]string // news of each name
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, told: map[string]string{}}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.fd, s.live = int(f.Fd()), true
		// https://no-color.org
		s.colour = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// say writes a line above the table.
func (s *screen) say(format string, args ...any) {
	s.redraw(fmt.Sprintf(format+"\n", args...))
}

// now names the step that is being played.
func (s *screen) now(step string) {
	s.current = step
	if !s.live {
		fmt.Fprintf(s.out, "....           %s\n", step)
		return
	}
	s.redraw("")
}

// table shows the applications and the containers.
func (s *screen) table(rows []row, containers []containerRow) {
	switch {
	case !s.live:
		seen := map[string]bool{}
		tell(s, rows, seen)
		tell(s, containers, seen)
		for _, name := range slices.Sorted(maps.Keys(s.told)) {
			if !seen[name] {
				delete(s.told, name)
				fmt.Fprintf(s.out, "      %-14s is gone\n", name)
			}
		}
	case !slices.Equal(rows, s.rows) || !slices.Equal(containers, s.containers):
		s.rows, s.containers = rows, containers
		s.redraw("")
	}
}

// clear takes the tables away.
func (s *screen) clear() {
	s.rows, s.containers, s.current = nil, nil, ""
	s.redraw("")
}

// tell writes a line for each of which there is news, and notes whom it saw.
func tell[R line](s *screen, rows []R, seen map[string]bool) {
	for _, r := range rows {
		seen[r.name()] = true
		if text := r.news(); s.told[r.name()] != text {
			s.told[r.name()] = text
			fmt.Fprintf(s.out, "      %s\n", strings.TrimRight(text, " "))
		}
	}
}

// redraw replaces the tables by text and the tables as they are now, in one write, so
// that nothing flickers.
func (s *screen) redraw(text string) {
	var out strings.Builder
	if s.drawn > 0 {
		// Up to its first line, and erase to the end.
		fmt.Fprintf(&out, "\x1b[%dA\r\x1b[J", s.drawn)
	}
	out.WriteString(text)
	lines := s.lines()
	for _, line := range lines {
		out.WriteString(line + "\n")
	}
	s.drawn = len(lines)
	fmt.Fprint(s.out, out.String())
}

// lines are the tables and the step that is being played, none wider than the
// terminal: a line that wraps would be two to erase.
func (s *screen) lines() []string {
	if !s.live || (len(s.rows) == 0 && s.current == "") {
		return nil
	}
	width := 80
	if w, _, err := term.GetSize(s.fd); err == nil && w > 0 {
		width = w
	}
	lines := []string{""}
	if len(s.rows) > 0 {
		lines = append(lines, renderTable(s.rows, width-1, s.paint)...)
		lines = append(lines, "")
	}
	if len(s.containers) > 0 {
		lines = append(lines, renderTable(s.containers, width-1, s.paintContainer)...)
		lines = append(lines, "")
	}
	return append(lines, s.style("2", cut("now:  "+s.current, width-1)))
}

// paint colours what deserves a look, and nothing else.
func (s *screen) paint(r row, column int, cell string) string {
	text := strings.TrimRight(cell, " ")
	switch {
	case column == -1:
		return s.style("1", cell)
	case text == "-" || strings.HasPrefix(text, "not ours"):
		return s.style("2", cell)
	case column == 2 && r.state == settled, column == 4 && r.operator == "active":
		return s.style("32", cell)
	case column == 2 && (r.state == "failed" || r.state == "stuck"), column == 4 && r.operator == "lost":
		return s.style("31", cell)
	case column == 2, column == 1 && r.life != "alive":
		return s.style("33", cell)
	}
	return cell
}

// paintContainer is paint for the other table.
func (s *screen) paintContainer(r containerRow, column int, cell string) string {
	switch {
	case column == -1:
		return s.style("1", cell)
	case strings.TrimRight(cell, " ") == "-":
		return s.style("2", cell)
	case column == 2 && r.state == "running":
		return s.style("32", cell)
	case column == 2 && r.state == "error":
		return s.style("31", cell)
	case column == 2, column == 1 && r.life != "alive":
		return s.style("33", cell)
	}
	return cell
}

func (s *screen) good(text string) string { return s.style("1;32", text) }
func (s *screen) bad(text string) string  { return s.style("1;31", text) }

func (s *screen) style(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
