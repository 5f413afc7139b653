package model

import (
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/juju/errors"
)

// Problem is what is wrong with one file of the model. It is an
// errors.NotValid: reading the file again does not help, mending it does.
type Problem struct {
	// File is relative to the model's directory, with slashes.
	File string
	// Line counts from 1; 0 is the file as a whole.
	Line int
	// Rule says what is wrong and what would be right.
	Rule string

	cause error
}

// Error returns "file:line: rule", as compilers have it.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Rule)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Rule)
}

// Is makes a Problem an errors.NotValid.
func (p *Problem) Is(target error) bool { return target == errors.NotValid }

// Unwrap returns what the operating system said, if it did.
func (p *Problem) Unwrap() error { return p.cause }

// unreadable is the problem of a file that cannot be opened or read.
func unreadable(file string, err error) *Problem {
	p := &Problem{File: file, Rule: "is not there", cause: err}
	if !errors.Is(err, fs.ErrNotExist) {
		p.Rule = "cannot be read"
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			// The path is in File already.
			p.Rule += ": " + pathErr.Err.Error()
		}
	}
	return p
}

// syntaxRule does not say what the library says, since that may quote the file.
const syntaxRule = "this is not YAML (look at indentation, quotes and brackets)"

// yamlLine is how the YAML library begins a message, of which only the number is
// taken. Where the library's parser complains, and not its scanner, the number
// is one too low.
var (
	yamlLine   = regexp.MustCompile(`^yaml: line ([0-9]{1,7}): `)
	yamlParser = regexp.MustCompile(`^yaml: line [0-9]{1,7}: did not find expected (node content|key|',' or|'-' indicator|<)`)
)

// syntaxProblem turns an error of the YAML library into a problem.
func syntaxProblem(file string, err error) *Problem {
	// The library leaves out the number of the first line.
	p := &Problem{File: file, Line: 1, Rule: syntaxRule}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		p.Line, _ = strconv.Atoi(m[1])
		if yamlParser.MatchString(err.Error()) {
			p.Line++
		}
	}
	return p
}
