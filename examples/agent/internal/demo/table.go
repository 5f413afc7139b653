package demo

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// columns are the table's, in the order of row.cells.
func columns() []string {
	return []string{"APPLICATION", "LIFE", "STATE", "ATTEMPTS", "OPERATOR", "LAST ERROR"}
}

// renderTable returns the table's lines, none wider than width, with a header.
// paint colours a cell of a row without changing its width.
func renderTable(rows []row, width int, paint func(r row, column int, cell string) string) []string {
	header := columns()
	widths := make([]int, len(header))
	for i, name := range header {
		widths[i] = len(name)
	}
	for _, r := range rows {
		for i, cell := range r.cells() {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(cells []string, paint func(column int, cell string) string) string {
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
	lines := []string{line(header, func(_ int, cell string) string { return paint(row{}, -1, cell) })}
	for _, r := range rows {
		lines = append(lines, line(r.cells(), func(i int, cell string) string { return paint(r, i, cell) }))
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
