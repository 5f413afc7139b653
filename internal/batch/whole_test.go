package batch

import (
	"context"
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

const lost = errors.ConstError("connection lost")

// That something is not found by a call for many items says nothing about any
// of them; what else it says is kept.
func TestFailureOfAWholeCallIsNoAnswerAboutAnItem(t *testing.T) {
	sent := 0
	b, err := New(Config[string, string]{
		Call: func(context.Context, []string) ([]Result[string], error) {
			sent++
			return nil, errors.WithType(errors.NotFoundf("model"), lost)
		},
		Context: t.Context(),
		Timeout: 1,
		Clock:   clock.WallClock,
		Splits:  AboutAnItem,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Do(t.Context(), "a")
	if errors.Is(err, errors.NotFound) {
		t.Error("the item counts as not found")
	}
	if !errors.Is(err, lost) || err.Error() != "model not found" {
		t.Errorf("Do() = %v, want the rest of the error kept", err)
	}
	if sent != 1 {
		t.Errorf("sent %d times, want once", sent)
	}
}

func TestAboutAnItem(t *testing.T) {
	for _, kind := range []error{
		errors.NotFound, errors.NotValid, errors.BadRequest, errors.Unauthorized, errors.Forbidden, errors.AlreadyExists,
	} {
		if !AboutAnItem(errors.Annotate(kind, "x")) {
			t.Errorf("%v may be one item's fault", kind)
		}
	}
	for _, kind := range []error{errors.Timeout, errors.NotSupported, context.Canceled, lost, nil} {
		if AboutAnItem(kind) {
			t.Errorf("%v strikes everybody", kind)
		}
	}
}
