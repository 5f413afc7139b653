package otel

import (
	"time"

	"go.opentelemetry.io/otel/trace"
)

// maxEvents is how many events are remembered, the latest ones. A pass whose cause
// has fallen out has no link.
const maxEvents = 1024

// eventKey tells events of one scope apart. Numbers alone do not: a worker that is
// started again counts from 1. The zero key is no event.
type eventKey struct {
	number uint64
	nanos  int64
}

func keyOf(number uint64, at time.Time) eventKey {
	if number == 0 {
		return eventKey{}
	}
	return eventKey{number, at.UnixNano()}
}

// remembered are the spans of the latest events.
type remembered struct {
	spans map[scopedKey]trace.SpanContext
	order []scopedKey // a ring, of which next is the oldest once it is full
	next  int
}

type scopedKey struct {
	scope *scope
	eventKey
}

func (r *remembered) put(s *scope, key eventKey, span trace.SpanContext) {
	if key == (eventKey{}) || !span.IsValid() {
		return
	}
	if r.spans == nil {
		r.spans = make(map[scopedKey]trace.SpanContext)
	}
	k := scopedKey{s, key}
	if _, ok := r.spans[k]; !ok {
		if len(r.order) < maxEvents {
			r.order = append(r.order, k)
		} else {
			delete(r.spans, r.order[r.next])
			r.order[r.next] = k
			r.next = (r.next + 1) % maxEvents
		}
	}
	r.spans[k] = span
}

func (r *remembered) get(s *scope, key eventKey) (trace.SpanContext, bool) {
	if key == (eventKey{}) {
		return trace.SpanContext{}, false
	}
	span, ok := r.spans[scopedKey{s, key}]
	return span, ok
}
