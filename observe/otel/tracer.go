package otel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"
	"go.opentelemetry.io/otel/trace"
)

const (
	// queued is how many spans may wait to be begun, and how many to be
	// ended. More are lost.
	queued = 4096
	// patience is how long a pass waits for its span to begin.
	patience = 100 * time.Millisecond
	// farewell is how long the end waits for spans that are queued.
	farewell = time.Second
)

// Tracer makes spans of what workers do. It is a worker.Worker and a
// worker.Reporter; all its methods may be called from many goroutines at once.
type Tracer struct {
	catacomb catacomb.Catacomb
	config   Config
	tracer   trace.Tracer
	begins   chan *begin
	ends     chan func()
	events   remembered // the beginner's own

	hanging atomic.Bool // the beginner does not answer
	full    atomic.Bool // the queue of ends; that is logged once
	over    atomic.Bool // nobody ends spans any more
	begun   atomic.Uint64
	lost    atomic.Uint64

	mu      sync.Mutex
	trouble string // the last panic that was logged
}

// New starts a tracer. It returns errors.NotValid, naming the field, for a config
// that does not validate. The caller owns it: Kill it after the workers have
// ended, and Wait for its end, before the provider is shut down.
func New(config Config) (*Tracer, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "tracer config")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{
		config: config,
		tracer: config.TracerProvider.Tracer(Scope),
		begins: make(chan *begin, queued),
		ends:   make(chan func(), queued),
	}
	if err := catacomb.Invoke(catacomb.Plan{Site: &t.catacomb, Work: t.loop}); err != nil {
		return nil, errors.Trace(err)
	}
	return t, nil
}

// Kill asks the tracer to stop. From then on there are no new spans; those that
// wait to be ended are.
func (t *Tracer) Kill() { t.catacomb.Kill(nil) }

// Wait returns nil when the tracer has stopped, a second after Kill at the latest,
// when the provider does not answer: what it was asked then stays behind, in one
// goroutine that begins spans and one that ends them.
func (t *Tracer) Wait() error { return t.catacomb.Wait() }

// Lost returns how many spans were lost so far, because the provider was too slow,
// hung, panicked or the tracer was stopped.
func (t *Tracer) Lost() uint64 { return t.lost.Load() }

// Report describes the tracer for people: begun and lost are how many spans, ending
// how many wait to be ended; hanging tells that the provider does not answer.
func (t *Tracer) Report() map[string]any {
	report := map[string]any{
		"begun": t.begun.Load(), "lost": t.lost.Load(), "ending": len(t.ends), "hanging": t.hanging.Load(),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trouble != "" {
		report["error"] = t.trouble
	}
	return report
}

// loop owns the two goroutines that speak with the provider: one that hangs in
// there cannot be ended by anybody, and is left behind.
func (t *Tracer) loop() error {
	stopped := make(chan struct{})
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		t.serveBegins()
	}()
	go func() {
		defer close(stopped)
		t.serveEnds(begun)
	}()
	<-t.catacomb.Dying()
	timer := t.config.Clock.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.Chan():
		t.over.Store(true)
		t.lost.Add(uint64(len(t.ends)))
		t.config.Logger.Warn("the tracer provider hangs: spans are lost", "spans", t.lost.Load())
	}
	return t.catacomb.ErrDying()
}

func (t *Tracer) isDying() bool {
	select {
	case <-t.catacomb.Dying():
		return true
	default:
		return false
	}
}

// begin is a span that is to begin.
type begin struct {
	ctx   context.Context
	scope *scope
	event eventKey // that causes it, or that it is
	name  string
	start time.Time
	// options are those besides the time and the link.
	options []trace.SpanStartOption
	// ended is when the span, which is an event's, ended: at once.
	ended time.Time

	given  atomic.Bool // the answer, or the waiting for it up
	answer chan begun  // nil if nobody waits
}

// begun is a span that has begun; zero if it could not.
type begun struct {
	ctx       context.Context
	span      trace.Span
	recording bool
}

// start begins a span and waits for it, not for long. It returns ctx itself and a
// nil span if there is none.
func (t *Tracer) start(b *begin) (context.Context, trace.Span) {
	b.answer = make(chan begun, 1)
	if !t.ask(b) {
		return b.ctx, nil
	}
	timer := t.config.Clock.NewTimer(patience)
	defer timer.Stop()
	var got begun
	select {
	case got = <-b.answer:
	case <-timer.Chan():
		// First, since the beginner takes it back once it is through with b.
		already := t.hanging.Swap(true)
		if b.given.CompareAndSwap(false, true) {
			t.lost.Add(1)
			if !already {
				t.config.Logger.Warn("the tracer provider does not answer: there are no spans until it does")
			}
			return b.ctx, nil
		}
		t.hanging.Store(false)
		got = <-b.answer // in that very moment
	case <-t.catacomb.Dying():
		if b.given.CompareAndSwap(false, true) {
			t.lost.Add(1)
			return b.ctx, nil
		}
		got = <-b.answer
	}
	if got.ctx == nil {
		return b.ctx, nil
	}
	if !got.recording {
		return got.ctx, nil
	}
	return got.ctx, got.span
}

// ask hands a span to who begins it, unless he does not answer or has too much to
// do already.
func (t *Tracer) ask(b *begin) bool {
	if t.hanging.Load() || t.isDying() {
		t.lost.Add(1)
		return false
	}
	select {
	case t.begins <- b:
		return true
	default:
		t.lost.Add(1)
		return false
	}
}

// serveBegins begins spans, in the order in which they were asked for, so that an
// event's is there when that of a pass which it caused is to be linked with it.
func (t *Tracer) serveBegins() {
	for {
		select {
		case b := <-t.begins:
			t.begin(b)
			t.hanging.Store(false)
		case <-t.catacomb.Dying():
			return
		}
	}
}

// begin begins a span, and gives it to who waits.
func (t *Tracer) begin(b *begin) {
	if b.given.Load() {
		return // given up while others took too long
	}
	var got begun
	defer func() {
		if r := recover(); r != nil {
			t.panicked("beginning a span", r)
			got = begun{}
		}
		if b.answer != nil && b.given.CompareAndSwap(false, true) {
			b.answer <- got
		} else if b.answer != nil && got.recording {
			// Nobody waited for so long; the processors are told of an end.
			t.enqueue(func() { got.span.End(trace.WithTimestamp(b.start)) })
		}
	}()
	options := append(b.options, trace.WithTimestamp(b.start))
	if b.answer != nil {
		if cause, ok := t.events.get(b.scope, b.event); ok {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: cause}))
		}
	}
	ctx, span := t.tracer.Start(b.ctx, b.name, options...)
	got = begun{ctx, span, span.IsRecording()}
	t.begun.Add(1)
	if b.answer == nil {
		t.events.put(b.scope, b.event, span.SpanContext())
		if got.recording {
			t.enqueue(func() { span.End(trace.WithTimestamp(b.ended)) })
		}
	}
}

// enqueue has a span ended by who ends them.
func (t *Tracer) enqueue(end func()) {
	if t.over.Load() {
		t.lost.Add(1)
		return
	}
	select {
	case t.ends <- end:
		t.full.Store(false)
	default:
		t.lost.Add(1)
		if !t.full.Swap(true) {
			t.config.Logger.Warn("the tracer provider is too slow: spans are lost", "queued", queued)
		}
	}
}

// serveEnds ends spans, and at the end those that are left once none begins any
// more.
func (t *Tracer) serveEnds(begun <-chan struct{}) {
	for {
		select {
		case end := <-t.ends:
			t.end(end)
		case <-begun:
			for {
				select {
				case end := <-t.ends:
					t.end(end)
				default:
					t.over.Store(true)
					return
				}
			}
		}
	}
}

func (t *Tracer) end(end func()) {
	defer func() {
		if r := recover(); r != nil {
			t.panicked("ending a span", r)
		}
	}()
	end()
}

// panicked counts and logs a panic of the provider's, once for as long as it is the
// same.
func (t *Tracer) panicked(doing string, r any) {
	t.lost.Add(1)
	trouble := fmt.Sprintf("panic while %s: %v", doing, r)
	t.mu.Lock()
	repeated := t.trouble == trouble
	t.trouble = trouble
	t.mu.Unlock()
	if !repeated {
		t.config.Logger.Error("the tracer provider panicked: a span is lost", "error", trouble)
	}
}
