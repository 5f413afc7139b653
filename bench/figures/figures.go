// Package figures holds what was measured, and makes tables and charts of it
// for docs/BENCHMARKS.md.
//
// A [Report] is read from and written to JSON. What is made of one is
// determined by it alone, so a test can hold that the committed documents are
// those of the committed figures.
package figures

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/juju/errors"
)

// Report is all that was measured in one run.
type Report struct {
	// Setting is what was measured on and with, in the order to be told.
	Setting []Fact
	// Properties are what each contender holds.
	Properties []Property
	Figures    []Figure
}

// Fact is a name and its value.
type Fact struct{ Name, Value string }

// Property is something that a contender holds or not.
type Property struct {
	Name  string
	Holds map[string]bool
}

// Figure is one thing measured of each contender, at one or more points. Less
// is better in all of them.
type Figure struct {
	// ID is its name in file names.
	ID string
	// Title says what was measured.
	Title string
	// X and Y say what the axes are, with their units.
	X, Y string
	// Unit comes behind a value: s, us, B; empty for a count.
	Unit string
	// Exact tells that it is counted, or measured in virtual time.
	Exact bool
	// Points are the values of X.
	Points []float64
	// Lines are the values of Y of each contender, this project's own first,
	// one for each point or fewer.
	Lines []Line
}

// Line is what was measured of one contender.
type Line struct {
	Name   string
	Values []float64
}

// Find returns the figure of that ID.
func (r *Report) Find(id string) (Figure, error) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.ID == id })
	if i < 0 {
		return Figure{}, errors.NotFoundf("figure %q", id)
	}
	return r.Figures[i], nil
}

// Replace puts the figures in the place of those of the same IDs, or at the end.
func (r *Report) Replace(figs []Figure) {
	for _, f := range figs {
		i := slices.IndexFunc(r.Figures, func(old Figure) bool { return old.ID == f.ID })
		if i < 0 {
			r.Figures = append(r.Figures, f)
			continue
		}
		r.Figures[i] = f
	}
}

// Read reads a report from a file.
func Read(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Trace(err)
	}
	r := new(Report)
	return r, errors.Annotate(json.Unmarshal(data, r), path)
}

// Write writes it to a file that others may read.
func (r *Report) Write(path string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return errors.Trace(err)
	}
	return WriteFile(path, append(data, '\n'))
}

// WriteFile writes a document for everybody to read.
func WriteFile(path string, data []byte) error {
	return errors.Trace(os.WriteFile(path, data, 0o644)) //nolint:gosec // documentation holds no secret
}
