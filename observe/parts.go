package observe

import (
	"context"
	"slices"
)

// parts are those of several metrics that can hear one thing.
type parts[T any] []T

// able returns those of all that are a T.
func able[M, T any](all []M) parts[T] {
	var found parts[T]
	for _, m := range all {
		if t, ok := any(m).(T); ok {
			found = append(found, t)
		}
	}
	return found
}

// tell has every part hear something. A part that panics keeps none of the
// others from hearing it: the first panic goes on when all have heard.
func (p parts[T]) tell(call func(T)) {
	var t trouble
	for _, part := range p {
		t.keep(func() { call(part) })
	}
	t.goOn()
}

// trouble is the first panic of several calls.
type trouble struct {
	panicked bool
	value    any
}

// keep calls, and keeps a panic for later.
func (t *trouble) keep(call func()) {
	defer func() {
		if r := recover(); r != nil && !t.panicked {
			t.panicked, t.value = true, r
		}
	}()
	call()
}

// goOn panics if one of the calls did.
func (t *trouble) goOn() {
	if t.panicked {
		panic(t.value)
	}
}

// ends are what is to be told at the end of something, and what to panic with
// after that.
type ends[End any] struct {
	trouble
	calls []func(End)
}

// nothing reports whether there is nothing to tell or to panic with.
func (e *ends[End]) nothing() bool { return !e.panicked && len(e.calls) == 0 }

// call tells in the opposite order of the beginnings, each whatever the others do.
func (e *ends[End]) call(end End) {
	t := e.trouble
	for _, call := range slices.Backward(e.calls) {
		t.keep(func() { call(end) })
	}
	t.goOn()
}

// present returns the parts that are not nil.
func present[M comparable](all []M) []M {
	var none M
	var found []M
	for _, m := range all {
		if m != none {
			found = append(found, m)
		}
	}
	return found
}

// attach attaches every part. It returns what detaches them.
func (p parts[T]) attach(attach func(T) func()) (detach func()) {
	var all ends[struct{}]
	for _, part := range p {
		all.keep(func() {
			if detach := attach(part); detach != nil {
				all.calls = append(all.calls, func(struct{}) { detach() })
			}
		})
	}
	if all.nothing() {
		return nil
	}
	return func() { all.call(struct{}{}) }
}

// starting tells every part of a beginning, each with the context of the one
// before it. It returns the last context, and what tells them of the end. The
// panic of a part goes on at the end: there is nobody to return to before it.
func starting[T, End any](
	ctx context.Context, p parts[T], start func(context.Context, T) (context.Context, func(End)),
) (context.Context, func(End)) {
	var all ends[End]
	for _, part := range p {
		all.keep(func() {
			derived, done := start(ctx, part)
			if derived != nil {
				ctx = derived //nolint:fatcontext // As deep as there are parts.
			}
			if done != nil {
				all.calls = append(all.calls, done)
			}
		})
	}
	if all.nothing() {
		return ctx, nil
	}
	return ctx, all.call
}
