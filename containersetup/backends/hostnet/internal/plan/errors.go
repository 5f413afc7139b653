package plan

import (
	"fmt"

	"github.com/juju/errors"
)

// maxQuoted bounds what is quoted of a file in an error.
const maxQuoted = 60

// Invalid returns errors.NotValid that names the file and, unless it is 0, the
// line.
func Invalid(file string, line int, format string, args ...any) error {
	return errors.NewNotValid(nil, at(file, line, format, args...))
}

// Conflict returns errors.AlreadyExists, likewise.
func Conflict(file string, line int, format string, args ...any) error {
	return errors.NewAlreadyExists(nil, at(file, line, format, args...))
}

// Unsupported returns errors.NotSupported, likewise: nothing is wrong with the
// file, it is what this package leaves alone.
func Unsupported(file string, line int, format string, args ...any) error {
	return errors.NewNotSupported(nil, at(file, line, format, args...))
}

// Missing returns errors.NotFound for a device that no file mentions.
func Missing(device string) error {
	return errors.NotFoundf("device %q in the network configuration", device)
}

func at(file string, line int, format string, args ...any) string {
	where := file
	if line > 0 {
		where = fmt.Sprintf("%s:%d", file, line)
	}
	return where + ": " + fmt.Sprintf(format, args...)
}

// Quote quotes a word of a file for an error: one line, cut where it is long.
func Quote(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted] + "..."
	}
	return fmt.Sprintf("%q", s)
}
