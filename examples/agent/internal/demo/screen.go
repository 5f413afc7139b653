package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// screen tells the story: on a terminal as lines that scroll above a table that
// is drawn anew in place, elsewhere as plain lines, one for each application
// that changed. One goroutine uses it.
type screen struct {
	out    io.Writer
	fd     int // of the terminal
	live   bool
	colour bool

	drawn   int // lines of the table on the terminal
	rows    []row
	current string // the step that is being played
	told    map[string]string
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

// table shows the applications.
func (s *screen) table(rows []row) {
	switch {
	case !s.live:
		s.tell(rows)
	case !slices.Equal(rows, s.rows):
		s.rows = rows
		s.redraw("")
	}
}

// clear takes the table away.
func (s *screen) clear() {
	s.rows, s.current = nil, ""
	s.redraw("")
}

// tell writes a line for each application of which more than the number of
// attempts changed.
func (s *screen) tell(rows []row) {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.application] = true
		text := fmt.Sprintf("%-14s %-8s %-14s %-10s", r.application, r.life, r.state, r.operator)
		if r.lastError != "" {
			text += " " + strings.ReplaceAll(r.lastError, "\n", " ")
		}
		if s.told[r.application] != text {
			s.told[r.application] = text
			fmt.Fprintf(s.out, "      %s\n", strings.TrimRight(text, " "))
		}
	}
	for app := range s.told {
		if !seen[app] {
			delete(s.told, app)
			fmt.Fprintf(s.out, "      %-14s is gone\n", app)
		}
	}
}

// redraw replaces the table by text and the table as it is now, in one write, so
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

// lines are the table and the step that is being played, none wider than the
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

func (s *screen) good(text string) string { return s.style("1;32", text) }
func (s *screen) bad(text string) string  { return s.style("1;31", text) }

func (s *screen) style(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
