package batch

import "github.com/juju/errors"

// AboutAnItem is a Config.Splits: it tells which failures of a whole call may be
// the fault of one item in it, which then must not cost the others. The rest,
// such as a time-out, strikes everybody alike, and to ask again one by one would
// only add to the trouble.
func AboutAnItem(err error) bool {
	for _, kind := range []error{
		errors.NotFound, errors.NotValid, errors.BadRequest,
		errors.Unauthorized, errors.Forbidden, errors.AlreadyExists,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// notAnAnswer keeps the failure of a whole call from being taken for its answer
// about an item: what is not found then, a model for one, is not the item, which
// its caller would take for gone.
func notAnAnswer(err error) error {
	if errors.Is(err, errors.NotFound) {
		return wholeError{err}
	}
	return err
}

// wholeError is an error of every kind that the one of the call has, but for
// errors.NotFound.
type wholeError struct{ err error }

func (e wholeError) Error() string { return e.err.Error() }

// Is is what errors.Is asks.
func (e wholeError) Is(target error) bool {
	return target != errors.NotFound && errors.Is(e.err, target)
}
