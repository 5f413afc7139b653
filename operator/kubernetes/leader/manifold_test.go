package leader_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	jujuerrors "github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/sutler-dev/sutler/enginelog"
	"github.com/sutler-dev/sutler/enginevalue"
	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

// job is a worker that is to run in one agent only. It takes a while to stop.
type job struct {
	once sync.Once
	dead chan struct{}
	stop time.Duration
	err  error
}

func (j *job) Kill() {
	j.once.Do(func() {
		go func() {
			time.Sleep(j.stop)
			close(j.dead)
		}()
	})
}

func (j *job) Wait() error {
	<-j.dead
	return j.err
}

// reportingJob is one that reports.
type reportingJob struct{ *job }

func (reportingJob) Report() map[string]any { return map[string]any{"job": "done"} }

// office counts the jobs that run in all agents.
type office struct {
	mu      sync.Mutex
	running []string // agents whose job runs
	most    int
	starts  int
}

// counts are how often a job started, and how many ran at once at most.
func (o *office) counts() (starts, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.starts, o.most
}

func (o *office) at() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.running, " ")
}

// manifold is that of the agent's job, which says its name to dependents.
func (o *office) manifold(agent string, stop time.Duration) dependency.Manifold {
	return dependency.Manifold{
		Start: func(dependency.Context) (worker.Worker, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.running = append(o.running, agent)
			o.most = max(o.most, len(o.running))
			o.starts++
			j := &job{dead: make(chan struct{}), stop: stop}
			go func() {
				<-j.dead
				o.mu.Lock()
				defer o.mu.Unlock()
				for i, a := range o.running {
					if a == agent {
						o.running = append(o.running[:i], o.running[i+1:]...)
						break
					}
				}
			}()
			return j, nil
		},
		Output: func(in worker.Worker, out any) error {
			if _, ok := in.(*job); !ok {
				return fmt.Errorf("output of %T", in)
			}
			*out.(*string) = agent
			return nil
		},
	}
}

func newEngine(t testing.TB, logger *slog.Logger, manifolds dependency.Manifolds) *dependency.Engine {
	t.Helper()
	engine, err := startEngine(logger, manifolds)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func startEngine(logger *slog.Logger, manifolds dependency.Manifolds) (*dependency.Engine, error) {
	engine, err := dependency.NewEngine(dependency.EngineConfig{
		IsFatal:     func(error) bool { return false },
		WorstError:  func(err, _ error) error { return err },
		ErrorDelay:  3 * time.Second,
		BounceDelay: 10 * time.Millisecond,
		Clock:       clock.WallClock,
		Metrics:     dependency.DefaultMetrics(),
		Logger:      enginelog.New(logger),
	})
	if err != nil {
		return nil, err
	}
	return engine, dependency.Install(engine, manifolds)
}

// host is an agent: an engine with an election, the job, and what depends on it.
type host struct {
	*dependency.Engine
	name   string
	client *client
	log    *journal
}

func (c *cluster) host(t *testing.T, name string, o *office, stop time.Duration) *host {
	t.Helper()
	h := &host{name: name, client: c.client(), log: new(journal)}
	logger := slog.New(slog.NewTextHandler(h.log, nil))
	election := config(nil, name)
	election.Logger = logger
	h.Engine = newEngine(t, logger, dependency.Manifolds{
		"client":          enginevalue.Manifold[kubernetes.Interface](h.client),
		"leader-election": leader.ElectionManifold(leader.ManifoldConfig{ClientName: "client", Config: election}),
		"leader":          leader.Manifold("leader-election"),
		"job":             leader.Wrap(o.manifold(name, stop), "leader"),
		"client-of-job": {
			Inputs: []string{"job"},
			Start: func(context dependency.Context) (worker.Worker, error) {
				var agent string
				if err := context.Get("job", &agent); err != nil {
					return nil, err
				}
				if agent != name {
					return nil, fmt.Errorf("the job of %q", agent)
				}
				return enginevalue.Manifold(agent).Start(nil)
			},
		},
	})
	return h
}

// state is that of one of the engine's manifolds.
func (h *host) state(manifold string) string {
	all := h.Report()["manifolds"].(map[string]any)
	return all[manifold].(map[string]any)["state"].(string)
}

// election is the report of the worker that stands for election.
func (h *host) election() map[string]any {
	all := h.Report()["manifolds"].(map[string]any)
	report, _ := all["leader-election"].(map[string]any)["report"].(map[string]any)
	return report
}

func (h *host) end(t *testing.T) {
	t.Helper()
	h.Kill()
	if err := h.Wait(); err != nil {
		t.Errorf("%s: %v", h.name, err)
	}
	synctest.Wait() // the office is told after the engine
}

func (h *host) states(t *testing.T, want map[string]string) {
	t.Helper()
	for manifold, state := range want {
		if got := h.state(manifold); got != state {
			t.Errorf("%s: %s is %s, want %s", h.name, manifold, got, state)
		}
	}
}

var (
	leads    = map[string]string{"leader-election": "started", "leader": "started", "job": "started", "client-of-job": "started"}
	standsBy = map[string]string{"leader-election": "started", "leader": "starting", "job": "stopped", "client-of-job": "stopped"}
)

// settle is enough for the engines to start and stop what they have to.
const settle = time.Second

func TestDependentsRunOnlyInTheLeadersAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		a := c.host(t, "a", o, 0)
		pass(settle)
		b := c.host(t, "b", o, 0)
		pass(10 * time.Minute)
		a.states(t, leads)
		b.states(t, standsBy)
		if starts, _ := o.counts(); o.at() != "a" || starts != 1 {
			t.Errorf("the job runs at %q, after %d starts", o.at(), starts)
		}
		if report := b.election(); report["holder"] != "a" || report["leading"] != false {
			t.Errorf("b stands by and reports %v", report)
		}
		if report := a.election(); report["leading"] != true || report["dependents"] != 1 {
			t.Errorf("a leads and reports %v", report)
		}

		// The job moves when the leader's agent is stopped, and back.
		a.end(t)
		if c.holder() != "" {
			t.Errorf("%q holds the lease of the stopped agent", c.holder())
		}
		pass(takeover + settle)
		b.states(t, leads)
		a = c.host(t, "a", o, 0)
		pass(time.Minute)
		a.states(t, standsBy)
		b.end(t)
		pass(takeover + settle)
		a.states(t, leads)
		if starts, most := o.counts(); o.at() != "a" || most != 1 || starts != 3 {
			t.Errorf("the job runs at %q, after %d starts, %d at once", o.at(), starts, most)
		}
		a.end(t)
		if o.at() != "" {
			t.Errorf("the job still runs at %q", o.at())
		}
	})
}

func TestDependentsStopBeforeAnotherLeadsWhenTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		a := c.host(t, "a", o, 500*time.Millisecond)
		pass(settle)
		b := c.host(t, "b", o, 500*time.Millisecond)
		pass(time.Minute)

		a.client.fail(faults["hangs"])
		pass(leader.DefaultRenewDeadline + 2*time.Second) // one to stop
		if o.at() != "" {
			t.Errorf("the job runs at %q", o.at())
		}
		pass(leader.DefaultLeaseDuration)
		if _, most := o.counts(); o.at() != "b" || most != 1 {
			t.Errorf("the job runs at %q, %d at once", o.at(), most)
		}
		// The agent stands for election again, and reports why in vain.
		a.states(t, standsBy)
		if err := a.election()["error"]; err == nil {
			t.Errorf("a's election reports %v", a.election())
		}
		a.client.heal()
		pass(time.Minute)
		if report := a.election(); report["holder"] != "b" || report["error"] != nil {
			t.Errorf("a's election reports %v", report)
		}
		// A loss is no error of the engine's.
		if a.log.count("level=ERROR") != 0 || a.log.count("level=WARN", "election ended") != 1 {
			t.Errorf("a logged:\n%s", a.log)
		}
		b.end(t)
		pass(takeover + settle)
		a.states(t, leads)
		a.end(t)
	})
}

func TestDependentsStopAtOnceWhenAnotherHoldsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		a := c.host(t, "a", o, 0)
		pass(time.Minute)
		other := "b"
		c.edit(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = &other })
		pass(leader.DefaultRetryPeriod + 100*time.Millisecond)
		if o.at() != "" {
			t.Errorf("the job runs at %q", o.at())
		}
		a.states(t, standsBy)
		pass(leader.DefaultLeaseDuration + takeover) // b is gone
		a.states(t, leads)
		a.end(t)
	})
}

func TestLeaseIsReleasedWhenDependentsHaveStopped(t *testing.T) {
	const stop = 700 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		a := c.host(t, "a", o, stop)
		pass(settle)
		b := c.host(t, "b", o, stop)
		pass(time.Minute)

		a.Kill()
		pass(stop - time.Millisecond)
		if o.at() != "a" || c.holder() != "a" {
			t.Errorf("the job runs at %q, %q holds the lease", o.at(), c.holder())
		}
		pass(2 * time.Millisecond)
		if o.at() != "" || c.holder() != "" {
			t.Errorf("the job runs at %q, %q holds the lease", o.at(), c.holder())
		}
		a.end(t)
		pass(takeover + settle)
		if _, most := o.counts(); o.at() != "b" || most != 1 {
			t.Errorf("the job runs at %q, %d at once", o.at(), most)
		}
		b.end(t)
	})
}

func TestLeaseIsLeftToExpireWhenDependentsDoNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		a := c.host(t, "a", o, 5*time.Second)
		pass(settle)
		b := c.host(t, "b", o, 0)
		pass(time.Minute)
		a.end(t)
		if c.holder() != "a" || a.log.count("level=WARN", "left to expire", "1 dependents have not stopped") != 1 {
			t.Errorf("%q holds the lease:\n%s", c.holder(), a.log)
		}
		pass(leader.DefaultLeaseDuration + takeover + settle)
		if _, most := o.counts(); o.at() != "b" || most != 1 {
			t.Errorf("the job runs at %q, %d at once", o.at(), most)
		}
		b.end(t)
	})
}

// The dependents learn of the end of a term before the election's worker ends,
// which waits for them.
func TestKilledElectionHasItsDependentsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, o := newCluster(), &office{}
		elections := make(chan worker.Worker, 10)
		election := leader.ElectionManifold(leader.ManifoldConfig{Config: config(c.client(), "a")})
		start := election.Start
		election.Start = func(context dependency.Context) (worker.Worker, error) {
			w, err := start(context)
			elections <- w
			return w, err
		}
		engine := newEngine(t, nil, dependency.Manifolds{
			"leader-election": election,
			"leader":          leader.Manifold("leader-election"),
			"job":             leader.Wrap(o.manifold("a", 100*time.Millisecond), "leader"),
		})
		pass(settle)
		w := <-elections
		begin := time.Now()
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait() = %v", err)
		}
		synctest.Wait()
		if took := time.Since(begin); took != 100*time.Millisecond {
			t.Errorf("the election took %v to end, want the time that the job took to stop", took)
		}
		if o.at() != "" || c.holder() != "" {
			t.Errorf("the job runs at %q, %q holds the lease", o.at(), c.holder())
		}
		engine.Kill()
		if err := engine.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A manifold that depends on leadership by itself asks with nil.
func TestDependentWithoutWrapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.leases[leaseKey] = heldBy("b")
		var starts, missing atomic.Int32
		engine := newEngine(t, nil, dependency.Manifolds{
			"leader-election": leader.ElectionManifold(leader.ManifoldConfig{Config: config(c.client(), "a")}),
			"leader":          leader.Manifold("leader-election"),
			"own": {
				Inputs: []string{"leader"},
				Start: func(context dependency.Context) (worker.Worker, error) {
					if err := context.Get("leader", nil); err != nil {
						missing.Add(1)
						if !errors.Is(err, dependency.ErrMissing) {
							t.Errorf("Get() = %v, want ErrMissing", err)
						}
						return nil, err
					}
					starts.Add(1)
					return enginevalue.Manifold(1).Start(nil)
				},
			},
		})
		pass(leader.DefaultLeaseDuration - time.Second)
		if starts.Load() != 0 || missing.Load() == 0 {
			t.Errorf("%d starts, %d times missing while b leads", starts.Load(), missing.Load())
		}
		pass(time.Second + takeover + settle)
		if starts.Load() != 1 {
			t.Errorf("%d starts", starts.Load())
		}
		engine.Kill()
		if err := engine.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// heldBy is a Lease that was renewed just now.
func heldBy(holder string) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name, lease.ResourceVersion = namespace, leaseName, "0"
	seconds := int32(leader.DefaultLeaseDuration / time.Second)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
	return lease
}

// The name of the election in place of that of its leader is a mistake that would
// leave the dependent waiting for ever.
func TestWrongNameIsAnErrorAndNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCluster().stand(t, "a")
		defer a.stop(t)
		election := leader.ElectionManifold(leader.ManifoldConfig{Config: config(a.client, "a")})
		wrapped := leader.Wrap(new(office).manifold("a", 0), "leader-election")
		_, err := wrapped.Start(engineContext{"leader-election": {election, a.Worker}})
		if !errors.Is(err, jujuerrors.NotValid) || !strings.Contains(err.Error(), "names that of leader.Manifold") {
			t.Errorf("Start() = %v, want a NotValid that tells what to name", err)
		}
	})
}

// engineContext is a dependency.Context of workers that run.
type engineContext map[string]struct {
	manifold dependency.Manifold
	worker   worker.Worker
}

func (c engineContext) Abort() <-chan struct{} { return nil }

func (c engineContext) Get(name string, out any) error {
	r, ok := c[name]
	if !ok {
		return dependency.ErrMissing
	}
	if out == nil {
		return nil
	}
	return r.manifold.Output(r.worker, out)
}

func TestWrapKeepsWhatTheManifoldIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCluster().stand(t, "a")
		defer a.stop(t)
		election := leader.ElectionManifold(leader.ManifoldConfig{Config: config(a.client, "a")})
		ofLeader := leader.Manifold("leader-election")
		crown, err := ofLeader.Start(engineContext{"leader-election": {election, a.Worker}})
		if err != nil {
			t.Fatal(err)
		}
		context := engineContext{"leader": {ofLeader, crown}}

		failed := errors.New("no")
		filtered := errors.New("filtered")
		inputs := []string{"x", "y"}
		var ended chan struct{}
		reports, fails := false, true
		manifold := dependency.Manifold{
			Inputs: inputs[:1],
			Start: func(got dependency.Context) (worker.Worker, error) {
				if err := got.Get("leader", nil); err != nil {
					t.Errorf("the context is another: %v", err)
				}
				if fails {
					return nil, failed
				}
				ended = make(chan struct{})
				j := &job{dead: ended, err: failed}
				if reports {
					return reportingJob{j}, nil
				}
				return j, nil
			},
			Filter: func(error) error { return filtered },
			Output: func(in worker.Worker, out any) error {
				*out.(*worker.Worker) = in
				return nil
			},
		}
		wrapped := leader.Wrap(manifold, "leader")
		if got := fmt.Sprint(wrapped.Inputs, inputs); got != "[x leader] [x y]" {
			t.Errorf("inputs, and those of the manifold itself: %s", got)
		}
		if wrapped.Filter(nil) != filtered {
			t.Error("its filter is another")
		}
		if _, err := wrapped.Start(context); err != failed {
			t.Errorf("Start() = %v, want the manifold's own error", err)
		}
		fails = false
		for _, reports = range []bool{false, true} {
			w, err := wrapped.Start(context)
			if err != nil {
				t.Fatal(err)
			}
			if n := a.Report()["dependents"]; n != 1 {
				t.Errorf("%v dependents, want 1", n)
			}
			reporter, ok := w.(dependency.Reporter)
			if ok != reports || ok && reporter.Report()["job"] != "done" {
				t.Errorf("reports: %v, want %v", ok, reports)
			}
			var own worker.Worker
			if err := wrapped.Output(w, &own); err != nil {
				t.Error(err)
			}
			switch own.(type) {
			case *job, reportingJob:
			default:
				t.Errorf("output of a %T, want the manifold's own worker", own)
			}
			w.Kill()
			for range 2 {
				if err := w.Wait(); err != failed {
					t.Errorf("Wait() = %v, want the worker's own error", err)
				}
			}
			if n := a.Report()["dependents"]; n != 0 {
				t.Errorf("%v dependents after the end, want 0", n)
			}
		}
		if leader.Wrap(dependency.Manifold{}, "leader").Output != nil {
			t.Error("an output that was not there")
		}

		// A term that ends between the engine's look and the start.
		a.Kill()
		if _, err := wrapped.Start(context); !errors.Is(err, dependency.ErrMissing) {
			t.Errorf("Start() = %v after the term, want ErrMissing", err)
		}
		if err := crown.Wait(); !errors.Is(err, dependency.ErrMissing) {
			t.Errorf("the leader's worker ended with %v, want ErrMissing", err)
		}
	})
}

func TestPanicInAStartLeavesTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCluster().stand(t, "a")
		defer a.stop(t)
		election := leader.ElectionManifold(leader.ManifoldConfig{Config: config(a.client, "a")})
		ofLeader := leader.Manifold("leader-election")
		crown, err := ofLeader.Start(engineContext{"leader-election": {election, a.Worker}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
			if n := a.Report()["dependents"]; n != 0 {
				t.Errorf("%v dependents, want 0", n)
			}
			crown.Kill()
			if err := crown.Wait(); err != nil {
				t.Error(err)
			}
		}()
		wrapped := leader.Wrap(dependency.Manifold{
			Start: func(dependency.Context) (worker.Worker, error) { panic("boom") },
		}, "leader")
		_, _ = wrapped.Start(engineContext{"leader": {ofLeader, crown}})
	})
}

func TestManifoldsRefuseOutputsOfOtherTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCluster().stand(t, "a")
		defer a.stop(t)
		election := leader.ElectionManifold(leader.ManifoldConfig{Config: config(a.client, "a")})
		var term *leader.Term
		if err := election.Output(a.Worker, &term); err != nil || term != a.Term() {
			t.Errorf("Output() = %v, gave %v", err, term)
		}
		ofLeader := leader.Manifold("leader-election")
		crown, err := ofLeader.Start(engineContext{"leader-election": {election, a.Worker}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			crown.Kill()
			_ = crown.Wait()
		}()
		var text string
		for about, err := range map[string]error{
			"election, type":   election.Output(a.Worker, &text),
			"election, worker": election.Output(&job{}, &term),
			"leader, type":     ofLeader.Output(crown, &term),
			"leader, worker":   ofLeader.Output(a.Worker, &term),
		} {
			if !errors.Is(err, jujuerrors.NotValid) {
				t.Errorf("%s: Output() = %v, want NotValid", about, err)
			}
		}
	})
}

func TestManifoldConfigNamesTheFieldThatIsWrong(t *testing.T) {
	client := newCluster().client()
	tests := []struct {
		about  string
		config leader.ManifoldConfig
		want   string
	}{
		{"no client", leader.ManifoldConfig{Config: config(nil, "a")}, "empty ClientName and nil Client"},
		{"two", leader.ManifoldConfig{ClientName: "client", Config: config(client, "a")}, "ClientName and Client"},
		{"the worker's", leader.ManifoldConfig{ClientName: "client", Config: config(nil, "")}, "empty Identity"},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			err := test.config.Validate()
			if !errors.Is(err, jujuerrors.NotValid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Validate() = %v, want a NotValid that says %q", err, test.want)
			}
			_, err = leader.ElectionManifold(test.config).Start(engineContext{})
			if !errors.Is(err, jujuerrors.NotValid) {
				t.Errorf("Start() = %v, want NotValid", err)
			}
		})
	}
}

func TestElectionWaitsForItsClient(t *testing.T) {
	manifold := leader.ElectionManifold(leader.ManifoldConfig{ClientName: "client", Config: config(nil, "a")})
	if got := fmt.Sprint(manifold.Inputs); got != "[client]" {
		t.Errorf("Inputs = %s", got)
	}
	if _, err := manifold.Start(engineContext{}); !errors.Is(err, dependency.ErrMissing) {
		t.Errorf("Start() = %v, want ErrMissing", err)
	}
	if _, err := leader.Manifold("leader-election").Start(engineContext{}); !errors.Is(err, dependency.ErrMissing) {
		t.Errorf("Start() = %v without the election, want ErrMissing", err)
	}
}
