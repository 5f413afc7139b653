package demo

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// line is one line of a table.
type line interface {
	comparable
	// columns are the table's names, in the order of cells.
	columns() []string
	cells() []string
	// name is what the line is about; it is told once it is gone.
	name() string
	// news is the line in plain text, without what changes too often.
	news() string
}

// row is one application in the table.
type row struct {
	application, life, state string
	attempts                 int
	operator, lastError      string
}

func (r row) cells() []string {
	attempts := "-"
	if r.attempts > 0 {
		attempts = strconv.Itoa(r.attempts)
	}
	lastError := strings.ReplaceAll(r.lastError, "\n", " ")
	if lastError == "" {
		lastError = "-"
	}
	return []string{r.application, r.life, r.state, attempts, r.operator, lastError}
}

func (row) columns() []string {
	return []string{"APPLICATION", "LIFE", "STATE", "ATTEMPTS", "OPERATOR", "LAST ERROR"}
}

func (r row) name() string { return r.application }

func (r row) news() string {
	text := fmt.Sprintf("%-14s %-8s %-14s %-10s", r.application, r.life, r.state, r.operator)
	if r.lastError != "" {
		text += " " + strings.ReplaceAll(r.lastError, "\n", " ")
	}
	return text
}

// containerRow is one container in its table.
type containerRow struct {
	container, life, state, instance, message string
}

func (r containerRow) cells() []string {
	return []string{r.container, r.life, r.state, cmp.Or(r.instance, "-"), cmp.Or(r.message, "-")}
}

func (containerRow) columns() []string {
	return []string{"CONTAINER", "LIFE", "STATE", "INSTANCE", "MESSAGE"}
}

func (r containerRow) name() string { return r.container }

func (r containerRow) news() string {
	return strings.TrimRight(fmt.Sprintf("%-14s %-8s %-14s %-20s %s", r.container, r.life, r.state, cmp.Or(r.instance, "-"), r.message), " ")
}

// renderTable returns the table's lines, none wider than width, with a header.
// paint colours a cell of a row without changing its width.
func renderTable[R line](rows []R, width int, paint func(r R, column int, cell string) string) []string {
	var none R
	header := none.columns()
	widths := make([]int, len(header))
	for i, name := range header {
		widths[i] = len(name)
	}
	for _, r := range rows {
		for i, cell := range r.cells() {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	render := func(cells []string, paint func(column int, cell string) string) string {
		var out strings.Builder
		left := width
		for i, cell := range cells {
			if i < len(cells)-1 {
				cell = pad(cell, widths[i]+2)
			}
			if cell = cut(cell, left); cell == "" {
				break
			}
			left -= utf8.RuneCountInString(cell)
			out.WriteString(paint(i, cell))
		}
		return out.String()
	}
	lines := []string{render(header, func(_ int, cell string) string { return paint(none, -1, cell) })}
	for _, r := range rows {
		lines = append(lines, render(r.cells(), func(i int, cell string) string { return paint(r, i, cell) }))
	}
	return lines
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// cut shortens s to width characters.
func cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}
