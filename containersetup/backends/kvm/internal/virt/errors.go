package virt

import (
	"net"
	"strings"
	"syscall"
	"unicode"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
)

// ErrNoReply says that a question was sent and no answer came, since the connection
// ended: a change may have been made or not. Such an error is errors.NotYetAvailable,
// too.
const ErrNoReply = errors.ConstError("connection lost before an answer came")

// maxMessage is how much of libvirt's message an error has, in bytes.
const maxMessage = 500

// Error is a refusal by libvirt. It unwraps to its kind, if the code tells one.
type Error struct {
	// Code is libvirt's own, VIR_ERR_...
	Code int
	// Message is libvirt's own, in one line.
	Message string
}

// Error returns one line.
func (e *Error) Error() string { return "libvirt: " + e.Message }

// Unwrap returns the kind, or nil.
func (e *Error) Unwrap() error {
	switch libvirt.ErrorNumber(e.Code) {
	case libvirt.ErrNoDomain, libvirt.ErrNoNetwork, libvirt.ErrNoStoragePool, libvirt.ErrNoStorageVol,
		libvirt.ErrNoDomainMetadata:
		return errors.NotFound
	case libvirt.ErrDomExist, libvirt.ErrNetworkExist, libvirt.ErrStorageVolExist, libvirt.ErrStoragePoolBuilt:
		return errors.AlreadyExists
	case libvirt.ErrNoSupport, libvirt.ErrConfigUnsupported, libvirt.ErrArgumentUnsupported,
		libvirt.ErrOperationUnsupported:
		return errors.NotSupported
	case libvirt.ErrAuthFailed, libvirt.ErrAccessDenied, libvirt.ErrOperationDenied,
		libvirt.ErrAuthCancelled, libvirt.ErrAuthUnavailable:
		return errors.Forbidden
	case libvirt.ErrOperationTimeout:
		return errors.Timeout
	}
	return nil
}

// code tells whether err is a refusal with the code.
func code(err error, number libvirt.ErrorNumber) bool {
	var refusal *Error
	return errors.As(err, &refusal) && refusal.Code == int(number)
}

// refused tells whether err is a refusal of something that is there. Drivers differ in
// the code that they have for what is so already.
func refused(err error) bool {
	var refusal *Error
	return errors.As(err, &refusal) && !errors.Is(err, errors.NotFound)
}

// rawCode is code for an error of go-libvirt's own.
func rawCode(err error, number libvirt.ErrorNumber) bool {
	var refusal libvirt.Error
	return errors.As(err, &refusal) && refusal.Code == uint32(number)
}

// classify tells whether the connection is of no use any more after an error of
// go-libvirt's, and makes one of this package's of it.
func (c *Client) classify(err error) (broken bool, _ error) {
	var (
		refusal libvirt.Error
		network *net.OpError
	)
	switch {
	case errors.As(err, &refusal):
		return false, &Error{Code: int(refusal.Code), Message: oneLine(refusal.Message)}
	case errors.Is(err, libvirt.ErrUnsupported):
		return false, errors.NewNotSupported(nil, "libvirt does not know the procedure")
	case errors.Is(err, libvirt.ErrInterrupted):
		err = errors.WithType(errors.Errorf("libvirt at socket %s: %s", c.config.Socket, ErrNoReply), ErrNoReply)
		return true, errors.WithType(err, errors.NotYetAvailable)
	case errors.Is(err, syscall.EINVAL), errors.As(err, &network):
		// Nothing was sent, or to nobody. EINVAL is go-libvirt's own.
		return true, errors.WithType(errors.Errorf("libvirt at socket %s: connection lost", c.config.Socket), errors.NotYetAvailable)
	}
	// What cannot be decoded, for one. Who knows what comes next.
	return true, errors.Annotatef(err, "libvirt at socket %s", c.config.Socket)
}

// oneLine makes libvirt's message fit for an error.
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
