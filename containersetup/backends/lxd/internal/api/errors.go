package api

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/juju/errors"
)

const (
	// ErrChanged says that what was to be changed is not what it was when its
	// ETag was read.
	ErrChanged = errors.ConstError("changed since it was read")
	// ErrOperationLost says that LXD does not know an operation any more, or
	// that nobody is there to be asked: it may have ended well or badly, or
	// been cut short.
	ErrOperationLost = errors.ConstError("how the operation ended is not known")
	// ErrNoReply says that a request was sent and no answer came: it may have
	// been carried out or not.
	ErrNoReply = errors.ConstError("connection lost before an answer came")
)

// maxMessage is how much of LXD's message an error has, in bytes.
const maxMessage = 500

// Error is a refusal by LXD. It unwraps to its kind, if the code tells one.
type Error struct {
	// Code is HTTP's status code. A failed operation has none: LXD gives the
	// same one to all of them.
	Code int
	// Message is LXD's own, in one line.
	Message string
}

// Error returns one line.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("refused by LXD with code %d", e.Code)
	}
	return "LXD: " + e.Message
}

// Unwrap returns the kind, or nil.
func (e *Error) Unwrap() error {
	switch e.Code {
	case http.StatusBadRequest:
		return errors.BadRequest
	case http.StatusForbidden:
		return errors.Forbidden
	case http.StatusNotFound:
		return errors.NotFound
	case http.StatusConflict:
		return errors.AlreadyExists
	case http.StatusPreconditionFailed:
		return ErrChanged
	case http.StatusServiceUnavailable:
		return errors.NotYetAvailable
	}
	return nil
}

// refused tells whether err is LXD's own answer, and not the lack of one.
func refused(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal)
}

// ofAnother takes the kind away from errors.NotFound when what was to be changed is
// there: then it is something else that it refers to, such as a device's network.
func ofAnother(err error) error {
	if errors.Is(err, errors.NotFound) {
		return errors.New(err.Error())
	}
	return err
}

// oneLine makes LXD's message fit for an error.
func oneLine(message string) string {
	// Far more than is kept, and little enough to be worked on.
	message = cut(message, 16*maxMessage)
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(message, " "))
	if short := cut(strings.Join(strings.Fields(message), " "), maxMessage); short != "" {
		return short
	}
	return "no message"
}

func cut(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
