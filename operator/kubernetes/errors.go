package kubernetes

import (
	"context"
	"strings"

	"github.com/juju/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// apiError gives an error of the API server, or of the way there, its kind. The
// message stays the server's.
func apiError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		// The client's own words for it differ from case to case.
		return errors.Trace(ctx.Err())
	}
	if strings.ContainsRune(err.Error(), '\n') {
		err = oneLine{err}
	}
	if kind := kindOf(err); kind != "" {
		return errors.WithType(err, kind)
	}
	return err
}

// oneLine is an error on one line: the server's own messages may have several.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }

func kindOf(err error) errors.ConstError {
	switch {
	case apierrors.IsNotFound(err):
		return errors.NotFound
	case apierrors.IsAlreadyExists(err):
		return errors.AlreadyExists
	case apierrors.IsUnauthorized(err):
		return errors.Unauthorized
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		// The server has no reason of its own for it.
		return errors.QuotaLimitExceeded
	case apierrors.HasStatusCause(err, namespaceTerminating):
		return errors.NotYetAvailable
	case apierrors.IsForbidden(err):
		return errors.Forbidden
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return errors.Timeout
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsConflict(err):
		return errors.NotYetAvailable
	case apierrors.IsInvalid(err):
		return errors.NotValid
	case apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return errors.BadRequest
	}
	return ""
}

const namespaceTerminating metav1.CauseType = "NamespaceTerminating"

// denied reports whether err says that the manager lacks rights: waiting does not
// mend it.
func denied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
