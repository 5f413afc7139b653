package otel_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestConfigIsValidated(t *testing.T) {
	good := otel.Config{TracerProvider: noop.NewTracerProvider(), Clock: clock.WallClock}
	for want, change := range map[string]func(*otel.Config){
		"nil TracerProvider": func(c *otel.Config) { c.TracerProvider = nil },
		"nil Clock":          func(c *otel.Config) { c.Clock = nil },
	} {
		config := good
		change(&config)
		if _, err := otel.New(config); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	tracer, err := otel.New(good)
	if err != nil {
		t.Fatal(err)
	}
	tracer.Kill()
	if err := tracer.Wait(); err != nil {
		t.Error(err)
	}
}

func TestPassIsASpanLinkedToItsEvent(t *testing.T) {
	story(t, func(w *world) {
		w.operators()
		w.after(time.Minute)
		w.exporter.Reset()
		at := time.Now()
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Delay: 3 * time.Second}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.after(10 * time.Second)

		pass := w.spans(otel.SpanOperatorPass, "sutler.outcome=settled")[0]
		event := w.one(otel.SpanOperatorEvent, "sutler.event.number="+value(pass, otel.KeyEventNumber))
		if got := value(event, otel.KeyEventSource); got != "applications" && got != "provisioning" {
			t.Errorf("the event is of %q", got)
		}
		if value(event, otel.KeyEventNames) != "1" || value(event, otel.KeyModel) != fakes.ModelUUID || !event.StartTime.Equal(at) {
			t.Errorf("the event has %v, and began at %v, want %v", values(event), event.StartTime, at)
		}
		if len(pass.Links) != 1 || pass.Links[0].SpanContext.SpanID() != event.SpanContext.SpanID() {
			t.Errorf("the pass is linked to %v, want %v", pass.Links, event.SpanContext)
		}
		if pass.Parent.IsValid() || pass.SpanContext.TraceID() == event.SpanContext.TraceID() {
			t.Error("the pass is no trace of its own")
		}
		if !pass.StartTime.Equal(at) || pass.EndTime.Sub(pass.StartTime) != 3*time.Second {
			t.Errorf("it took from %v to %v", pass.StartTime, pass.EndTime)
		}
		if pass.Status.Code != codes.Unset || len(pass.Events) != 0 {
			t.Errorf("a settled pass has %v and %v", pass.Status, pass.Events)
		}
		for key, want := range map[string]string{
			otel.KeyApplication: "mysql", otel.KeyModel: fakes.ModelUUID,
			otel.KeyAttempts: "", otel.KeyDelay: "", otel.KeyErrorType: "",
		} {
			if got := value(pass, key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if pass.InstrumentationScope.Name != otel.Scope {
			t.Errorf("the scope is %s", pass.InstrumentationScope.Name)
		}
	})
}

func TestFailuresAreErrorsAndRetriesAreCounted(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: 2, Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Panic: "bang"}})
		w.controller.AddApplication("mysql", fakes.App{})
		// With no other watchers, whose events would come meanwhile.
		w.operators(func(c *provisioner.Config) {
			c.Facade, c.OperatorManager = w.controller.Plain(), w.manager.Plain()
		})
		w.after(time.Minute)

		failed := w.spans(otel.SpanOperatorPass, "sutler.outcome=failed")
		if len(failed) != 2 {
			t.Fatalf("%d passes failed, want 2\n%s", len(failed), w.list())
		}
		for n, pass := range failed {
			if pass.Status.Code != codes.Error || !strings.Contains(pass.Status.Description, "boom") || value(pass, otel.KeyErrorType) != "failed" {
				t.Errorf("a failed pass has %v, %v", pass.Status, values(pass))
			}
			if len(pass.Events) != 1 || pass.Events[0].Name != "exception" || !pass.Events[0].Time.Equal(pass.EndTime) {
				t.Errorf("it recorded %v", pass.Events)
			}
			if got := value(pass, otel.KeyAttempts); got != []string{"", "1"}[n] {
				t.Errorf("pass %d has attempts %q", n, got)
			}
		}
		retry := failed[1]
		if value(retry, otel.KeyDelay) != "1" || len(retry.Links) != 0 || value(retry, otel.KeyEventNumber) != "" {
			t.Errorf("the retry has %v and links %v", values(retry), retry.Links)
		}
		panicked := w.one(otel.SpanOperatorPass, "sutler.outcome=panicked", "sutler.attempts=2", "sutler.delay_seconds=2")
		if panicked.Status.Code != codes.Error || panicked.Status.Description != "panic: bang" {
			t.Errorf("a panic has %v", panicked.Status)
		}
		w.one(otel.SpanOperatorPass, "sutler.outcome=settled", "sutler.attempts=3", "sutler.delay_seconds=4")
	})
}

// Each outcome, with what a trace says of it.
func TestOutcomesOfOperatorPasses(t *testing.T) {
	story(t, func(w *world) {
		starter := w.tracer.Operators().(provisioner.PassStarter)
		for _, o := range append(provisioner.Outcomes(), provisioner.OutcomeCancelled) {
			_, done := starter.PassStarting(t.Context(), provisioner.PassStart{Application: string(o)})
			done(provisioner.Pass{Application: string(o), Outcome: o, Err: boom})
		}
		w.after(0)
		isError := []string{"failed", "panicked", "permanent", "stuck"}
		for _, o := range append(provisioner.Outcomes(), provisioner.OutcomeCancelled) {
			span := w.one(otel.SpanOperatorPass, "sutler.application.name="+string(o))
			want := codes.Unset
			if slices.Contains(isError, string(o)) {
				want = codes.Error
			}
			reason := value(span, otel.KeyReason)
			if span.Status.Code != want || (want == codes.Error) != (len(span.Events) == 1) || (want == codes.Error) == (reason == "boom") {
				t.Errorf("%s: %v, %v, reason %q", o, span.Status, span.Events, reason)
			}
		}
	})
}

func TestCallsOfAnInstrumentedFacadeAreInside(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.operators(func(c *provisioner.Config) {
			c.Facade = instrumented{w.controller.Plain(), w.provider.Tracer("facade")}
		})
		w.after(time.Minute)
		pass := w.spans(otel.SpanOperatorPass, "sutler.application.name=mysql", "sutler.outcome=settled")[0]
		call := w.spans("Life")[0]
		if call.Parent.SpanID() != pass.SpanContext.SpanID() || call.SpanContext.TraceID() != pass.SpanContext.TraceID() {
			t.Errorf("the call's parent is %v, want %v", call.Parent, pass.SpanContext)
		}
	})
}

// instrumented makes a span of a call, as an instrumented client does.
type instrumented struct {
	facade.Applications
	tracer trace.Tracer
}

func (i instrumented) Life(ctx context.Context, app string) (facade.Life, error) {
	ctx, span := i.tracer.Start(ctx, "Life")
	defer span.End()
	return i.Applications.Life(ctx, app)
}

func TestKilledPassIsCancelledAndNoError(t *testing.T) {
	story(t, func(w *world) {
		gate := fakes.NewGate()
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Gate: gate}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.operators()
		w.stop()
		pass := w.one(otel.SpanOperatorPass, "sutler.outcome=cancelled")
		if pass.Status.Code != codes.Unset {
			t.Errorf("it has %v", pass.Status)
		}
	})
}

func TestPhasesAndContainers(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "Initialise", Key: string(lxd), Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/0", Effect: fakes.Effect{Err: boom}})
		free := w.host.Lock().Occupy(holder(), 1)
		w.host.SetInitialiseTime(5 * time.Second)
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		w.after(7 * time.Second)
		free()
		w.after(time.Minute)

		asked := w.spans(otel.SpanSetupEvent, "sutler.machine.id=0", "sutler.event.source=containers")[0]
		failed := w.one(otel.SpanSetupPhase, "sutler.phase=initialise", "sutler.outcome=failed", "error.type=failed",
			"sutler.container.type=lxd", "sutler.machine.id=0", "sutler.lock_wait_seconds=7")
		if failed.Status.Code != codes.Error || len(failed.Events) != 1 {
			t.Errorf("the failed phase has %v, %v", failed.Status, failed.Events)
		}
		if len(failed.Links) != 1 || failed.Links[0].SpanContext.SpanID() != asked.SpanContext.SpanID() {
			t.Errorf("it is linked to %v", failed.Links)
		}
		done := w.one(otel.SpanSetupPhase, "sutler.phase=initialise", "sutler.outcome=done", "sutler.attempts=1", "sutler.lock_hold_seconds=5")
		if done.Status.Code != codes.Unset || done.EndTime.Sub(done.StartTime) != 5*time.Second {
			t.Errorf("the phase has %v and took %v", done.Status, done.EndTime.Sub(done.StartTime))
		}
		for _, phase := range []string{"settings", "network", "broker", "provisioner"} {
			w.one(otel.SpanSetupPhase, "sutler.phase="+phase, "sutler.outcome=done")
		}

		start := w.one(otel.SpanContainerPass, "sutler.outcome=failed", "sutler.start_attempt=1", "sutler.container.id=0/lxd/0",
			"sutler.container.type=lxd", "sutler.machine.id=0")
		if start.Status.Code != codes.Error {
			t.Errorf("the failed start has %v", start.Status)
		}
		w.one(otel.SpanContainerPass, "sutler.outcome=settled", "sutler.start_attempt=2", "sutler.attempts=1")
		event := w.spans(otel.SpanContainerEvent, "sutler.container.type=lxd", "sutler.machine.id=0", "sutler.event.source=containers")[0]
		linked := slices.ContainsFunc(w.spans(otel.SpanContainerPass), func(s spanStub) bool {
			return len(s.Links) == 1 && s.Links[0].SpanContext.SpanID() == event.SpanContext.SpanID()
		})
		if !linked {
			t.Errorf("no pass is linked to the event\n%s", w.list())
		}
	})
}

func TestPhaseThatIsKilledIsCancelled(t *testing.T) {
	story(t, func(w *world) {
		w.host.SetInitialiseTime(time.Hour)
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		w.after(time.Second)
		w.stop()
		if span := w.one(otel.SpanSetupPhase, "sutler.phase=initialise"); value(span, otel.KeyOutcome) != "cancelled" || span.Status.Code != codes.Unset {
			t.Errorf("it has %v, %v", values(span), span.Status)
		}
	})
}

func TestEventsOfARestartedWorkerAreItsOwn(t *testing.T) {
	story(t, func(w *world) {
		metrics := w.tracer.Operators()
		same := func(c *provisioner.Config) { c.Metrics = metrics }
		w.controller.AddApplication("mysql", fakes.App{})
		first := w.operators(same)
		w.after(time.Minute)
		first.Kill()
		_ = first.Wait()
		w.exporter.Reset()
		w.operators(same)
		w.after(time.Second)
		pass := w.spans(otel.SpanOperatorPass)[0]
		if len(pass.Links) != 1 {
			t.Fatalf("links %v", pass.Links)
		}
		for _, event := range w.spans(otel.SpanOperatorEvent) {
			if event.SpanContext.SpanID() == pass.Links[0].SpanContext.SpanID() {
				return
			}
		}
		t.Error("the pass is linked to an event of the first worker")
	})
}

func TestSpansOfSharedMetricsDoNotGuessTheModel(t *testing.T) {
	story(t, func(w *world) {
		shared := w.tracer.Operators()
		for _, model := range []string{fakes.ModelUUID, otherModel} {
			w.operators(func(c *provisioner.Config) {
				c.Metrics, c.ModelUUID = shared, model
				c.Owns = func(string) bool { return model == fakes.ModelUUID }
			})
		}
		w.exporter.Reset()
		w.controller.AddApplication("mysql", fakes.App{})
		w.after(time.Minute)
		if got := w.spans(otel.SpanOperatorPass); len(got) == 0 || value(got[0], otel.KeyModel) != "" {
			t.Errorf("spans\n%s", w.list())
		}
	})
}

func TestEventThatFellOutIsNotLinked(t *testing.T) {
	story(t, func(w *world) {
		metrics := w.tracer.Operators()
		events, starter := metrics.(provisioner.EventMetrics), metrics.(provisioner.PassStarter)
		event := func(n int) provisioner.Event {
			return provisioner.Event{Number: uint64(n), Source: provisioner.SourceTrigger, Time: time.Now(), Names: 1}
		}
		pass := func(n int) {
			_, done := starter.PassStarting(t.Context(), provisioner.PassStart{Application: fmt.Sprint("app", n), Event: event(n)})
			done(provisioner.Pass{Outcome: provisioner.OutcomeSettled})
		}
		for n := 1; n <= 1025; n++ {
			events.EventReceived(event(n))
			w.after(0)
		}
		pass(1)
		pass(2)
		pass(1025)
		w.after(0)
		for app, want := range map[string]int{"app1": 0, "app2": 1, "app1025": 1} {
			span := w.one(otel.SpanOperatorPass, "sutler.application.name="+app)
			if len(span.Links) != want {
				t.Errorf("%s has %d links, want %d", app, len(span.Links), want)
			}
			if value(span, otel.KeyEventSource) != "trigger" {
				t.Errorf("%s has %v", app, values(span))
			}
		}
	})
}

func TestUnsampledPassCarriesItsContextAndCostsNoEnd(t *testing.T) {
	story(t, func(w *world) {
		starter := w.tracer.Operators().(provisioner.PassStarter)
		ctx, done := starter.PassStarting(t.Context(), provisioner.PassStart{Application: "mysql"})
		if span := trace.SpanContextFromContext(ctx); !span.IsValid() || span.IsSampled() {
			t.Errorf("the context has %v", span)
		}
		if done != nil {
			t.Error("somebody is to be told of the end")
		}
	}, sdk.WithSampler(sdk.NeverSample()))
}

// documented are the names that docs/observe/traces.md has in its tables.
func documented(t *testing.T) (names []string) {
	page, err := os.ReadFile("../../docs/observe/traces.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		names = append(names, found[1])
	}
	return names
}

// Whatever can happen is made to happen, so that every name there is appears.
func TestNamesAreThoseOfTheDocumentation(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: 2, Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "Initialise", Key: string(lxd), Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/0", Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "Life", Times: 3, Effect: fakes.Effect{Delay: time.Second}})
		free := w.host.Lock().Occupy(holder(), 1)
		w.host.SetInitialiseTime(time.Second)
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.AddApplication("redis", fakes.App{})
		w.controller.AddApplication("vault", fakes.App{})
		w.controller.RemoveCharm("vault")
		w.operators(func(c *provisioner.Config) { c.Concurrency, c.Facade = 1, w.controller.Plain() })
		w.after(time.Second)
		free()
		w.after(time.Minute)

		seen := map[string]bool{}
		for _, span := range w.exporter.GetSpans() {
			seen[span.Name] = true
			for _, a := range span.Attributes {
				seen[string(a.Key)] = true
			}
		}
		names := documented(t)
		for _, name := range names {
			if !seen[name] {
				t.Errorf("%s is documented and does not appear", name)
			}
		}
		for name := range seen {
			if !slices.Contains(names, name) {
				t.Errorf("%s is not documented", name)
			}
		}
	})
}
