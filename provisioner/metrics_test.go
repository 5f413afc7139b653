package provisioner_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// listener hears all that there is to hear.
type listener struct {
	passes
	mu       sync.Mutex
	events   []provisioner.Event
	starts   []provisioner.PassStart
	ends     []provisioner.Pass
	batches  []provisioner.Batch
	attached []*provisioner.Worker
	detached int
}

type startKey struct{}

func (l *listener) Attach(w *provisioner.Worker) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attached = append(l.attached, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.detached++
	}
}

func (l *listener) EventReceived(e provisioner.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) PassStarting(ctx context.Context, start provisioner.PassStart) (context.Context, func(provisioner.Pass)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts = append(l.starts, start)
	return context.WithValue(ctx, startKey{}, start.Application), func(pass provisioner.Pass) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends = append(l.ends, pass)
	}
}

func (l *listener) BatchDone(b provisioner.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batches = append(l.batches, b)
}

func (w *world) listen() *listener {
	l := &listener{}
	w.config.Metrics = l
	return l
}

func TestPassNamesTheFirstEventThatCausedIt(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(time.Minute)
		w.look("mysql")

		byNumber := map[uint64]provisioner.Event{}
		for _, e := range l.events { // in no order: each watcher tells its own
			byNumber[e.Number] = e
		}
		if n := uint64(len(l.events)); uint64(len(byNumber)) != n || byNumber[1].Number == 0 || byNumber[n].Number == 0 {
			t.Errorf("the events are not numbered from 1 on: %+v", l.events)
		}
		passes := l.of("mysql")
		if len(passes) < 2 {
			t.Fatalf("%d passes", len(passes))
		}
		first, last := passes[0], passes[len(passes)-1]
		baselines := []provisioner.EventSource{provisioner.SourceApplications, provisioner.SourceProvisioning}
		if !slices.Contains(baselines, first.Event.Source) || first.Event.Names != 1 {
			t.Errorf("the first pass was caused by %+v, want a baseline", first.Event)
		}
		if last.Event.Source != provisioner.SourceTrigger || !last.Event.Time.Equal(first.Event.Time.Add(time.Minute)) {
			t.Errorf("the last pass was caused by %+v, want the trigger a minute later", last.Event)
		}
		for _, pass := range passes {
			if pass.Event != byNumber[pass.Event.Number] {
				t.Errorf("a pass names %+v, of which nobody was told", pass.Event)
			}
		}
	})
}

func TestRetryHasNoEventAndCountsTheFailures(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		w.faults.Add(fakes.Rule{Method: "OperatorExists", Key: "mysql", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(4 * time.Second)
		passes := l.of("mysql")
		if len(passes) < 3 {
			t.Fatalf("%d passes, want 3 or more", len(passes))
		}
		for i, pass := range passes {
			if pass.Attempts != i {
				t.Errorf("pass %d has %d attempts before it", i, pass.Attempts)
			}
			if due := pass.Event == (provisioner.Event{}); i > 1 && !due || i == 0 && due { // the baselines of two watchers may cause two
				t.Errorf("pass %d was caused by %+v", i, pass.Event)
			}
		}
	})
}

func TestResyncIsAnEvent(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		for _, app := range []string{"a", "b"} {
			w.controller.AddApplication(app, fakes.App{})
		}
		w.start()
		w.after(provisioner.DefaultResyncInterval + time.Second)
		passes := l.of("a")
		if e := passes[len(passes)-1].Event; e.Source != provisioner.SourceResync || e.Names != 2 {
			t.Errorf("the last pass was caused by %+v, want a resync of 2", e)
		}
	})
}

func TestCallsOfAPassHaveItsContext(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		seen := &contexts{Applications: w.controller}
		w.config.Facade = seen
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		if !seen.marked {
			t.Error("CharmInfo was called without the context of its pass")
		}
		if len(l.starts) == 0 || len(l.starts) != len(l.ends) {
			t.Errorf("%d passes began, %d ended", len(l.starts), len(l.ends))
		}
		for i, start := range l.starts {
			if end := l.ends[i]; end.Application != start.Application || end.Event != start.Event {
				t.Errorf("pass %d began as %+v and ended as %+v", i, start, end)
			}
		}
	})
}

// contexts is a facade without bulk reads that looks at its callers' contexts.
type contexts struct {
	facade.Applications
	marked bool
}

func (c *contexts) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	c.marked = ctx.Value(startKey{}) == app
	return c.Applications.CharmInfo(ctx, app)
}

func TestPassThatIsCutShortEndsCancelled(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Gate: fakes.NewGate()}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.stop()
		if len(l.ends) != 1 || l.ends[0].Outcome != provisioner.OutcomeCancelled {
			t.Errorf("the pass ended as %+v, want cancelled", l.ends)
		}
		if passes := l.of("mysql"); len(passes) != 0 {
			t.Errorf("PassDone was told of %+v", passes)
		}
	})
}

func TestBatchesAreTold(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		for _, app := range []string{"a", "b", "c"} {
			w.controller.AddApplication(app, fakes.App{})
		}
		w.start()
		sizes := map[string]int{}
		for _, b := range l.batches {
			sizes[b.Call] += b.Size
		}
		if sizes["SetPasswords"] != 3 || sizes["ApplicationsInfo"] < 3 {
			t.Errorf("batches of %v, want 3 passwords and 3 or more reads", sizes)
		}
	})
}

func TestMetricsSeeTheWorkerWhileItRuns(t *testing.T) {
	story(t, func(w *world) {
		l := w.listen()
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		if len(l.attached) != 1 || l.attached[0] != w.worker || l.detached != 0 {
			t.Fatalf("attached %v, detached %d", l.attached, l.detached)
		}
		w.stop()
		if l.detached != 1 {
			t.Errorf("detached %d times, want once", l.detached)
		}
		if got := l.attached[0].Status().Applications[provisioner.StateSettled]; got != 1 {
			t.Errorf("%d settled after the end, want 1", got)
		}
	})
}

func TestPanicOfAnyMetricsDisturbsNobody(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = allExplosive{}
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.provisioned("mysql")
		w.stop()
		for _, method := range []string{"Attach", "EventReceived", "PassStarting", "BatchDone", "PassDone"} {
			if !slices.ContainsFunc(w.log.Lines("metrics panicked"), func(line string) bool { return strings.Contains(line, method) }) {
				t.Errorf("the panic of %s was swallowed", method)
			}
		}
	})
}

type allExplosive struct{ explosive }

func (allExplosive) Attach(*provisioner.Worker) func() { return func() { panic("detach") } }
func (allExplosive) EventReceived(provisioner.Event)   { panic("event") }
func (allExplosive) BatchDone(provisioner.Batch)       { panic("batch") }
func (allExplosive) PassStarting(context.Context, provisioner.PassStart) (context.Context, func(provisioner.Pass)) {
	return nil, func(provisioner.Pass) { panic("pass") }
}

func TestStatusCountsAndDates(t *testing.T) {
	story(t, func(w *world) {
		began := time.Now()
		w.controller.AddApplication("good", fakes.App{})
		w.controller.AddApplication("bad", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "OperatorExists", Key: "bad", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("no answer")}})
		w.start()
		w.after(time.Hour)

		status := w.worker.Status()
		if status.ModelUUID != fakes.ModelUUID || len(status.Applications) != len(provisioner.States()) {
			t.Errorf("status %+v", status)
		}
		if status.Applications[provisioner.StateSettled] != 1 || status.Applications[provisioner.StateFailed] != 1 {
			t.Errorf("counts %v", status.Applications)
		}
		if !status.UnsettledSince.Equal(began) {
			t.Errorf("unsettled since %v, want %v", status.UnsettledSince, began)
		}
		if status.Watchers["applications"].Events == 0 || status.Listed.IsZero() || status.Resynced.IsZero() || !status.NextResync.After(status.Resynced) {
			t.Errorf("status %+v", status)
		}
		apps := map[string]provisioner.ApplicationStatus{}
		for _, app := range w.worker.Applications() {
			apps[app.Name] = app
		}
		good, bad := apps["good"], apps["bad"]
		if good.State != provisioner.StateSettled || !good.UnsettledSince.IsZero() || good.Err != "" || !good.CertificateExpires.Equal(status.CertificateExpires) {
			t.Errorf("good is %+v", good)
		}
		if !good.CertificateExpires.After(time.Now()) || !good.Next.Before(good.CertificateExpires) {
			t.Errorf("the certificate of good expires at %v and is renewed at %v", good.CertificateExpires, good.Next)
		}
		if bad.State != provisioner.StateFailed || !bad.UnsettledSince.Equal(began) || !strings.Contains(bad.Err, "no answer") || bad.Attempts < 10 || !bad.Next.After(time.Now()) {
			t.Errorf("bad is %+v", bad)
		}

		w.faults.Clear()
		w.after(3 * time.Minute)
		if status := w.worker.Status(); !status.UnsettledSince.IsZero() || status.Applications[provisioner.StateSettled] != 2 {
			t.Errorf("all are settled, and the status is %+v", status)
		}
	})
}
