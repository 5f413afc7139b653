package otel

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
)

// scope is what one Metrics of a worker's has spans made in.
type scope struct {
	t     *Tracer
	key   string // KeyModel or KeyMachine
	pass  string // the names of its spans
	event string

	mu sync.Mutex
	of []string // the models or machines of the workers that are attached
}

// attach takes note of whose worker this is, until it has ended.
func (s *scope) attach(of string) (detach func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = append(s.of, of)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.of, of); i >= 0 {
			s.of = slices.Delete(s.of, i, i+1)
		}
	}
}

// whose returns the attribute with the model or machine. Where workers of several
// share a Metrics it is not known, and left out.
func (s *scope) whose() []attribute.KeyValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.of) == 0 {
		return nil
	}
	for _, of := range s.of {
		if of != s.of[0] {
			return nil
		}
	}
	return []attribute.KeyValue{attribute.String(s.key, s.of[0])}
}

// eventReceived makes the span of an event, which nobody waits for.
func (s *scope) eventReceived(event cause, attributes ...attribute.KeyValue) {
	attributes = append(attributes, s.whose()...)
	attributes = append(attributes, event.attributes()...)
	attributes = append(attributes, attribute.Int(KeyEventNames, event.names))
	s.t.ask(&begin{
		ctx:   context.Background(),
		scope: s, event: event.key(), name: s.event,
		start: event.time, ended: s.t.config.Clock.Now(),
		options: []trace.SpanStartOption{trace.WithAttributes(attributes...)},
	})
}

// starting begins the span of a pass or phase. It returns a nil span if there is
// none.
func (s *scope) starting(ctx context.Context, event cause, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	attributes = append(attributes, s.whose()...)
	attributes = append(attributes, event.attributes()...)
	return s.t.start(&begin{
		ctx: ctx, scope: s, event: event.key(), name: s.pass,
		start:   s.t.config.Clock.Now(),
		options: []trace.SpanStartOption{trace.WithAttributes(attributes...)},
	})
}

// ending has the span ended with what became of it.
func (s *scope) ending(span trace.Span, outcome string, isError bool, err error, attributes ...attribute.KeyValue) {
	now := s.t.config.Clock.Now()
	attributes = append(attributes, attribute.String(KeyOutcome, outcome))
	why := ""
	if err != nil {
		why = err.Error()
	}
	switch {
	case isError:
		attributes = append(attributes, attribute.String(KeyErrorType, outcome))
	case why != "":
		attributes = append(attributes, attribute.String(KeyReason, why))
	}
	s.t.enqueue(func() {
		span.SetAttributes(attributes...)
		if isError {
			if err != nil {
				span.RecordError(err, trace.WithTimestamp(now))
			}
			span.SetStatus(codes.Error, why)
		}
		span.End(trace.WithTimestamp(now))
	})
}

// cause is an event of either kind of worker.
type cause struct {
	number uint64
	source string
	time   time.Time
	names  int
}

func causeOf(e containerprovisioner.Event) cause {
	return cause{e.Number, string(e.Source), e.Time, e.Names}
}

func (c cause) key() eventKey { return keyOf(c.number, c.time) }

// attributes are those of the event and of what it caused.
func (c cause) attributes() []attribute.KeyValue {
	if c.number == 0 {
		return nil
	}
	return []attribute.KeyValue{
		attribute.Int64(KeyEventNumber, int64(c.number)),
		attribute.String(KeyEventSource, c.source),
	}
}

// count and seconds add an attribute unless its value stands for nothing.

func count(to []attribute.KeyValue, key string, n int) []attribute.KeyValue {
	if n == 0 {
		return to
	}
	return append(to, attribute.Int(key, n))
}

func seconds(to []attribute.KeyValue, key string, d time.Duration) []attribute.KeyValue {
	if d == 0 {
		return to
	}
	return append(to, attribute.Float64(key, d.Seconds()))
}
