package kubernetes

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestErrorsOfTheServerHaveTheirKind(t *testing.T) {
	what := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	const said = "the server's own words"
	terminating := apierrors.NewForbidden(what, "x", errors.New(said))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: namespaceTerminating}}
	for _, test := range []struct {
		name string
		err  error
		want errors.ConstError
	}{
		{"not found", apierrors.NewNotFound(what, said), errors.NotFound},
		{"already there", apierrors.NewAlreadyExists(what, said), errors.AlreadyExists},
		{"unauthorized", apierrors.NewUnauthorized(said), errors.Unauthorized},
		{"forbidden", apierrors.NewForbidden(what, "x", errors.New(said)), errors.Forbidden},
		{"over quota", apierrors.NewForbidden(what, "x", errors.New("exceeded quota: "+said)), errors.QuotaLimitExceeded},
		{"the namespace goes", terminating, errors.NotYetAvailable},
		{"time-out", apierrors.NewTimeoutError(said, 1), errors.Timeout},
		{"time-out of the server's", apierrors.NewServerTimeout(schema.GroupResource{Resource: said}, "get", 1), errors.Timeout},
		{"throttled", apierrors.NewTooManyRequests(said, 1), errors.NotYetAvailable},
		{"not serving", apierrors.NewServiceUnavailable(said), errors.NotYetAvailable},
		{"changed meanwhile", apierrors.NewConflict(what, "x", errors.New(said)), errors.NotYetAvailable},
		{"refused", apierrors.NewInvalid(schema.GroupKind{Kind: "StatefulSet"}, "x", field.ErrorList{field.Forbidden(field.NewPath("spec"), said)}), errors.NotValid},
		{"malformed", apierrors.NewBadRequest(said), errors.BadRequest},
		{"too large", apierrors.NewRequestEntityTooLargeError(said), errors.BadRequest},
		{"of the server's inside", apierrors.NewInternalError(errors.New(said)), ""},
		{"of the network", errors.Annotate(io.ErrUnexpectedEOF, said), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, err := range []error{test.err, errors.Annotate(test.err, "on the way")} {
				if got := kindOf(err); got != test.want {
					t.Errorf("kindOf(%v) = %q, want %q", err, got, test.want)
				}
			}
			got := apiError(t.Context(), test.err)
			if !strings.Contains(got.Error(), said) {
				t.Errorf("the server's message is lost: %v", got)
			}
			if !errors.Is(got, test.err) {
				t.Errorf("the cause is lost: %v", got)
			}
			if test.want != "" && !errors.Is(got, test.want) {
				t.Errorf("%v is not %q", got, test.want)
			}
			// One kind, and no other.
			for _, kind := range []errors.ConstError{
				errors.NotFound, errors.AlreadyExists, errors.Unauthorized, errors.Forbidden, errors.QuotaLimitExceeded,
				errors.Timeout, errors.NotYetAvailable, errors.NotValid, errors.BadRequest, errStale,
			} {
				if kind != test.want && errors.Is(got, kind) {
					t.Errorf("%v is also %q", got, kind)
				}
			}
		})
	}
}

func TestNoErrorStaysNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := apiError(ctx, nil); err != nil {
		t.Error(err)
	}
}

// TestEndOfTheContextIsToldAsSuch has the client's words for it differ: it may say
// that its rate limiter would wait for too long, or that the request was cancelled.
func TestEndOfTheContextIsToldAsSuch(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := apiError(cancelled, apierrors.NewNotFound(schema.GroupResource{}, "x")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if err := apiError(late, errors.New("client rate limiter Wait returned an error")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestOnlyLackOfRightsIsDenied(t *testing.T) {
	what := schema.GroupResource{Resource: "secrets"}
	for err, want := range map[error]bool{
		apierrors.NewForbidden(what, "x", errors.New("no")): true,
		apierrors.NewUnauthorized("no"):                     true,
		apierrors.NewNotFound(what, "x"):                    false,
		apierrors.NewTooManyRequests("no", 1):               false,
		io.EOF:                                              false,
	} {
		if denied(err) != want {
			t.Errorf("denied(%v) = %v", err, !want)
		}
	}
}

func TestErrorsOfSeveralLinesBecomeOne(t *testing.T) {
	t.Parallel()
	server := apierrors.NewInvalid(schema.GroupKind{Kind: "Thing"}, "x", field.ErrorList{
		field.Forbidden(field.NewPath("spec"), "immutable\n  - old\n  + new"),
	})
	err := apiError(t.Context(), server)
	if strings.ContainsRune(err.Error(), '\n') || !strings.Contains(err.Error(), "immutable - old + new") {
		t.Errorf("error %q", err)
	}
	if !errors.Is(err, errors.NotValid) || !apierrors.IsInvalid(err) {
		t.Errorf("the error lost its kind: %#v", err)
	}
}
