package otel_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/otel"
	"github.com/sutler-dev/sutler/provisioner"
)

// addApplications adds so many.
func (w *world) addApplications(n int) {
	for i := range n {
		w.controller.AddApplication(string(rune('a'+i/26%26))+string(rune('a'+i%26)), fakes.App{})
	}
}

// An exporter that never returns holds up its own goroutine only.
func TestHangingExporterHoldsUpNoWorker(t *testing.T) {
	p := &processor{}
	story(t, func(w *world) {
		block := make(chan struct{})
		p.set(nil, func() { <-block })
		w.addApplications(100)
		began := time.Now()
		running := w.operators()
		w.settled(running, 100)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		// More than the queue takes: the rest is lost, and that is told once.
		for range 6000 {
			_ = running.Trigger("aa")
			w.after(0)
		}
		w.settled(running, 100)
		if w.tracer.Lost() == 0 || len(w.log.Lines("too slow")) != 1 {
			t.Errorf("%d are lost; logged\n%s", w.tracer.Lost(), w.log.Text())
		}
		w.stop() // wants it to take a second at the most
		if len(w.log.Lines("hangs")) != 1 {
			t.Errorf("logged\n%s", w.log.Text())
		}
		close(block)
	}, sdk.WithSpanProcessor(p))
}

// A processor that never returns from the beginning of a span costs each pass that
// waits at that moment 100 ms, and those that follow nothing.
func TestHangingProcessorHoldsUpNoWorker(t *testing.T) {
	p := &processor{}
	story(t, func(w *world) {
		block := make(chan struct{})
		w.addApplications(100)
		p.set(func() { <-block }, nil)
		began := time.Now()
		running := w.operators()
		w.after(time.Second)
		w.settled(running, 100)
		for _, a := range running.Applications() {
			if took := a.Since.Sub(began); took > 200*time.Millisecond {
				t.Errorf("%s was held up for %v", a.Name, took)
			}
		}
		if w.tracer.Report()["hanging"] != true || len(w.log.Lines("does not answer")) != 1 {
			t.Errorf("report %v; logged\n%s", w.tracer.Report(), w.log.Text())
		}
		began = time.Now()
		_ = running.Trigger("aa")
		w.after(0)
		if time.Since(began) != 0 {
			t.Error("it waits again")
		}

		p.set(nil, nil)
		close(block)
		w.after(0)
		if w.tracer.Report()["hanging"] != false {
			t.Errorf("report %v", w.tracer.Report())
		}
		w.exporter.Reset()
		_ = running.Trigger("aa")
		w.after(0)
		w.one(otel.SpanOperatorPass, "sutler.application.name=aa")
	}, sdk.WithSpanProcessor(p))
}

func TestHangingProcessorHoldsUpNoEnd(t *testing.T) {
	p := &processor{}
	story(t, func(w *world) {
		block := make(chan struct{})
		p.set(func() { <-block }, nil)
		w.addApplications(3)
		w.operators()
		w.stop()
		close(block)
	}, sdk.WithSpanProcessor(p))
}

func TestPanickingProviderCostsSpansOnly(t *testing.T) {
	for name, set := range map[string]func(*processor){
		"beginning": func(p *processor) { p.set(func() { panic("boom") }, nil) },
		"ending":    func(p *processor) { p.set(nil, func() { panic("boom") }) },
	} {
		t.Run(name, func(t *testing.T) {
			p := &processor{}
			set(p)
			story(t, func(w *world) {
				w.addApplications(20)
				running := w.operators()
				w.settled(running, 20)
				if w.tracer.Lost() < 20 || len(w.log.Lines("provider panicked", name, "boom")) != 1 {
					t.Errorf("%d are lost; logged\n%s", w.tracer.Lost(), w.log.Text())
				}
				if got, _ := w.tracer.Report()["error"].(string); !strings.Contains(got, "boom") {
					t.Errorf("report %v", w.tracer.Report())
				}
				p.set(nil, nil)
				w.exporter.Reset()
				_ = running.Trigger("aa")
				w.after(0)
				w.one(otel.SpanOperatorPass, "sutler.application.name=aa")
			}, sdk.WithSpanProcessor(p))
		})
	}
}

// samplerFunc is a sampler that is a function.
type samplerFunc func() sdk.SamplingResult

func (f samplerFunc) ShouldSample(sdk.SamplingParameters) sdk.SamplingResult { return f() }
func (samplerFunc) Description() string                                      { return "" }

func TestPanickingSamplerCostsSpansOnly(t *testing.T) {
	story(t, func(w *world) {
		w.addApplications(5)
		w.settled(w.operators(), 5)
	}, sdk.WithSampler(samplerFunc(func() sdk.SamplingResult { panic("boom") })))
}

func TestTracerThatEndedMakesNoSpans(t *testing.T) {
	story(t, func(w *world) {
		starter := w.tracer.Operators().(provisioner.PassStarter)
		_, done := starter.PassStarting(t.Context(), provisioner.PassStart{Application: "before"})
		w.tracer.Kill()
		if err := w.tracer.Wait(); err != nil {
			t.Error(err)
		}
		done(provisioner.Pass{Outcome: provisioner.OutcomeSettled}) // too late
		ctx := context.WithoutCancel(t.Context())                   // one that can be told from others
		if got, done := starter.PassStarting(ctx, provisioner.PassStart{Application: "after"}); got != ctx || done != nil {
			t.Error("there is a span")
		}
		w.addApplications(5)
		w.settled(w.operators(), 5)
		if n := len(w.exporter.GetSpans()); n != 0 {
			t.Errorf("%d spans", n)
		}
		if w.tracer.Lost() < 2 {
			t.Errorf("%d are lost", w.tracer.Lost())
		}
	})
}

func TestSpansThatWaitAreEndedBeforeTheTracerEnds(t *testing.T) {
	p := &processor{}
	p.set(nil, func() { time.Sleep(time.Millisecond) }) // slow, not hanging
	story(t, func(w *world) {
		w.addApplications(100)
		w.operators()
		w.stop()
		if n := len(w.spans(otel.SpanOperatorPass, "sutler.outcome=settled")); n < 100 || w.tracer.Lost() != 0 {
			t.Errorf("%d spans, %d are lost", n, w.tracer.Lost())
		}
	}, sdk.WithSpanProcessor(p))
}

// A day with everything going wrong.
func TestNoSpanEverHoldsASecret(t *testing.T) {
	story(t, func(w *world) {
		w.faults.OnCall(func(c fakes.Call) fakes.Effect {
			if strings.HasPrefix(c.Method, "Watch") {
				return fakes.Effect{}
			}
			switch c.Seq % 11 {
			case 1:
				return fakes.Effect{Err: errors.Errorf("%s failed with %v", c.Method, c.Args)}
			case 3:
				return fakes.Effect{Err: boom, Act: fakes.Fully}
			case 5:
				return fakes.Effect{Panic: c.Args}
			}
			return fakes.Effect{}
		})
		w.addApplications(5)
		running := w.operators()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		var secrets []string
		for range 40 {
			w.after(7 * time.Second)
			for _, app := range []string{"aa", "ab", "ac", "ad", "ae"} {
				_ = running.Trigger(app)
				if password, ok := w.controller.Password(app); ok && !password.IsZero() {
					secrets = append(secrets, password.Reveal())
				}
				if stored := w.manager.Config(app); stored != nil {
					secrets = append(secrets, secretsIn(t, stored.AgentConf)...)
					secrets = append(secrets, secretsIn(t, stored.OperatorInfo)...)
				}
			}
		}
		if len(secrets) < 100 {
			t.Fatalf("only %d secrets were made", len(secrets))
		}
		var all strings.Builder
		for _, span := range w.exporter.GetSpans() {
			all.WriteString(span.Name + strings.Join(values(span), " ") + span.Status.Description)
			for _, e := range span.Events {
				for _, a := range e.Attributes {
					all.WriteString(a.Value.String())
				}
			}
		}
		for _, secret := range secrets {
			if strings.Contains(all.String(), secret) {
				t.Fatalf("a span has the secret %.6s...", secret)
			}
		}
		if !strings.Contains(all.String(), "failed with") {
			t.Error("nothing failed: the test shows nothing")
		}
	})
}

// secretsIn returns the values of keys that hold secrets, line by line.
func secretsIn(t *testing.T, file facade.Secret) (out []string) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(file.Reveal()), &content); err != nil {
		t.Fatal(err)
	}
	for key, value := range content {
		text, ok := value.(string)
		if !ok || !strings.Contains(key, "password") && !strings.Contains(key, "key") {
			continue
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= 16 && !strings.HasPrefix(line, "-----") {
				out = append(out, line)
			}
		}
	}
	return out
}

// What tracing costs a pass: some 4 µs, half of it the SDK's, when this was written.
func BenchmarkPass(b *testing.B) {
	tracer, err := otel.New(otel.Config{TracerProvider: sdk.NewTracerProvider(), Clock: clock.WallClock})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = worker.Stop(tracer) }()
	starter := tracer.Operators().(provisioner.PassStarter)
	b.ReportAllocs()
	for b.Loop() {
		_, done := starter.PassStarting(b.Context(), provisioner.PassStart{Application: "mysql"})
		if done != nil {
			done(provisioner.Pass{Outcome: provisioner.OutcomeSettled})
		}
	}
	b.ReportMetric(float64(tracer.Lost())/float64(b.N), "lost/op")
}
