package prometheus_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/observe/prometheus"
	"github.com/sutler-dev/sutler/provisioner"
)

// One container starts, another is given up; a third is of a type that there is
// not. The clock of a bubble starts at 946684800.
func TestContainersAreSeen(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		w.machine.SetSupported(containersetup.LXD)
		w.host.SetInitialiseTime(time.Minute)
		w.host.SetStartTime(time.Minute)
		w.faults.Add(fakes.Rule{
			Method: "StartInstance", Key: "0/lxd/1", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("no image")},
		})
		w.startSetup()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.machine.AddContainer("0/lxd/1", fakes.Container{})
		w.machine.AddContainer("0/kvm/0", fakes.Container{})
		w.after(30 * time.Second)
		w.sees(`
			sutler_container_containers{state="error",type="lxd"} 0
			sutler_container_containers{state="failed",type="lxd"} 0
			sutler_container_containers{state="queued",type="lxd"} 0
			sutler_container_containers{state="running",type="lxd"} 0
			sutler_container_containers{state="settled",type="lxd"} 0
			sutler_container_containers{state="waiting",type="lxd"} 0
			sutler_container_setup_phase{phase="broker",type="lxd"} 0
			sutler_container_setup_phase{phase="idle",type="lxd"} 0
			sutler_container_setup_phase{phase="initialise",type="lxd"} 1
			sutler_container_setup_phase{phase="network",type="lxd"} 0
			sutler_container_setup_phase{phase="provisioner",type="lxd"} 0
			sutler_container_setup_phase{phase="ready",type="lxd"} 0
			sutler_container_setup_phase{phase="refused",type="lxd"} 0
			sutler_container_setup_phase{phase="settings",type="lxd"} 0
			sutler_container_setup_phase_start_timestamp_seconds{type="lxd"} 9.466848e+08
			sutler_container_setup_refused_containers 1
			sutler_container_setup_waiting_containers{type="lxd"} 2
			sutler_container_setup_watching 1
			sutler_machine_lock_hold_start_timestamp_seconds{worker="container-setup"} 9.466848e+08
			sutler_machine_lock_hold_start_timestamp_seconds{worker="hostprep"} 0
		`, "sutler_container_containers", "sutler_container_setup_phase", "sutler_container_setup_phase_start_timestamp_seconds",
			"sutler_container_setup_refused_containers", "sutler_container_setup_waiting_containers", "sutler_container_setup_watching",
			"sutler_machine_lock_hold_start_timestamp_seconds")

		w.after(time.Minute) // 30 s after its start, 0/lxd/0 is still being started
		w.sees(`
			sutler_container_turns{turn="starting",type="lxd"} 1
			sutler_container_turns{turn="stopping",type="lxd"} 0
		`, "sutler_container_turns")

		w.after(20 * time.Minute)
		w.sees(`
			sutler_container_containers{state="error",type="lxd"} 1
			sutler_container_containers{state="failed",type="lxd"} 0
			sutler_container_containers{state="queued",type="lxd"} 0
			sutler_container_containers{state="running",type="lxd"} 0
			sutler_container_containers{state="settled",type="lxd"} 1
			sutler_container_containers{state="waiting",type="lxd"} 0
			sutler_container_instances{state="running",type="lxd"} 1
			sutler_container_instances{state="stopped",type="lxd"} 0
			sutler_container_oldest_unsettled_timestamp_seconds{type="lxd"} 9.4668486e+08
			sutler_container_setup_failures{type="lxd"} 0
			sutler_container_setup_waiting_containers{type="lxd"} 0
			sutler_container_start_attempts_total{result="done",type="lxd"} 1
			sutler_container_start_attempts_total{result="failed",type="lxd"} 10
			sutler_container_worker_starts_total{type="lxd"} 1
			sutler_container_workers{type="lxd"} 1
		`, "sutler_container_containers", "sutler_container_instances", "sutler_container_oldest_unsettled_timestamp_seconds",
			"sutler_container_setup_failures", "sutler_container_setup_waiting_containers",
			"sutler_container_start_attempts_total", "sutler_container_workers", "sutler_container_worker_starts_total")
		for _, want := range []string{
			`sutler_container_setup_attempts_total{phase="initialise",result="done",type="lxd"} 1`,
			`sutler_container_setup_phase_duration_seconds_sum{phase="initialise",type="lxd"} 60`,
			`sutler_machine_lock_hold_seconds_sum{worker="container-setup"} 60`,
		} {
			if !slices.Contains(exposed(t, w.registry), want) {
				t.Errorf("not exposed: %s", want)
			}
		}
	})
}

func TestASetUpThatFailsIsSeen(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "Initialise", Key: "lxd", Times: 3, Effect: fakes.Effect{Err: errors.New("no archive")}})
		w.startSetup()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.after(5 * time.Second)
		w.sees(`
			sutler_container_setup_failures{type="kvm"} 0
			sutler_container_setup_failures{type="lxd"} 3
		`, "sutler_container_setup_failures")
		w.after(time.Minute)
		w.sees(`
			sutler_container_setup_failures{type="kvm"} 0
			sutler_container_setup_failures{type="lxd"} 0
		`, "sutler_container_setup_failures")
		want := `sutler_container_setup_attempts_total{phase="initialise",result="failed",type="lxd"} 3`
		if !slices.Contains(exposed(t, w.registry), want) {
			t.Errorf("not exposed: %s", want)
		}
	})
}

// An engine starts a worker again: gauges are the new one's, counters go on.
func TestAWorkerThatEndedIsNotShownAndTheNextOneIs(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		names := []string{
			"sutler_operator_workers", "sutler_operator_worker_starts_total",
			"sutler_operator_next_resync_timestamp_seconds", "sutler_operator_retries_total",
		}
		w.controller.AddApplication("broken", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("boom")}})
		first := w.startOperators()
		w.after(2 * time.Second)
		w.stop(first)
		w.sees(`
			sutler_operator_next_resync_timestamp_seconds 0
			sutler_operator_retries_total 1
			sutler_operator_worker_starts_total 1
			sutler_operator_workers 0
		`, names...)
		w.startOperators()
		w.after(2 * time.Second)
		w.sees(`
			sutler_operator_next_resync_timestamp_seconds 9.46685402e+08
			sutler_operator_retries_total 2
			sutler_operator_worker_starts_total 2
			sutler_operator_workers 1
		`, names...)
	})
}

func TestSeveralWorkersAreAddedUpAndTheEarliestTimeIsTold(t *testing.T) {
	story(t, prometheus.Config{}, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.startOperators()
		w.after(time.Minute)
		faults := fakes.NewFaults(clock.WallClock)
		controller := fakes.NewController(faults)
		controller.AddApplication("redis", fakes.App{})
		controller.AddApplication("broken", fakes.App{})
		faults.Add(fakes.Rule{
			Method: "EnsureOperator", Key: "broken", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("boom")},
		})
		w.operators.Facade, w.operators.OperatorManager = controller, fakes.NewManager(faults)
		w.operators.Agent = fakes.NewAgent(controller.CACert())
		w.startOperators()
		w.after(time.Minute)
		w.sees(`
			sutler_operator_applications{state="failed"} 1
			sutler_operator_applications{state="queued"} 0
			sutler_operator_applications{state="running"} 0
			sutler_operator_applications{state="settled"} 2
			sutler_operator_applications{state="stuck"} 0
			sutler_operator_applications{state="waiting"} 0
			sutler_operator_next_resync_timestamp_seconds 9.466854e+08
			sutler_operator_oldest_unsettled_timestamp_seconds 9.4668486e+08
			sutler_operator_workers 2
		`, "sutler_operator_applications", "sutler_operator_oldest_unsettled_timestamp_seconds",
			"sutler_operator_next_resync_timestamp_seconds", "sutler_operator_workers")
	})
}

func TestAWorkerWhoseStatusPanicsIsLeftOutAndToldOfOnce(t *testing.T) {
	story(t, prometheus.Config{ApplicationLabels: true}, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.startOperators()
		// Not made by New, it has nothing to look at.
		for _, attach := range []func() func(){
			func() func() { return w.metrics.Operators().(provisioner.Attacher).Attach(new(provisioner.Worker)) },
			func() func() { return w.metrics.Operators().(provisioner.Attacher).Attach(nil) },
			func() func() { return w.metrics.Setup().(containersetup.Attacher).Attach(nil) },
			func() func() {
				of := w.metrics.Setup().(containersetup.ContainerMetrics).ContainerMetrics(containersetup.LXD)
				return of.(containerprovisioner.Attacher).Attach(nil)
			},
		} {
			defer attach()()
		}
		for range 3 {
			w.sees(`
				sutler_container_setup_workers 0
				sutler_container_workers{type="lxd"} 0
				sutler_operator_workers 1
			`, "sutler_operator_workers", "sutler_container_setup_workers", "sutler_container_workers")
		}
		if n := strings.Count(w.log.Text(), "left out of metrics"); n != 4 {
			t.Errorf("it was logged %d times, want once for each:\n%s", n, w.log.Text())
		}
	})
}

func TestSingleApplicationsHaveSeriesOnlyIfAskedFor(t *testing.T) {
	tell := func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.AddApplication("broken", fakes.App{})
		w.faults.Add(
			fakes.Rule{Method: "EnsureOperator", Key: "broken", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("top secret")}},
			fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("top secret")}},
		)
		w.startOperators()
		w.startSetup()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.after(4 * time.Second)
		for _, line := range exposed(w.T, w.registry) {
			if strings.Contains(line, "secret") {
				t.Errorf("exposed %q", line)
			}
		}
	}
	story(t, prometheus.Config{}, func(w *world) {
		tell(w)
		for _, line := range exposed(t, w.registry) {
			if strings.Contains(line, "broken") || strings.Contains(line, "0/lxd/0") {
				t.Errorf("exposed %q", line)
			}
		}
	})
	story(t, prometheus.Config{ApplicationLabels: true}, func(w *world) {
		tell(w)
		w.sees(`
			sutler_container_containers_omitted 0
			sutler_container_failures{container="0/lxd/0",type="lxd"} 3
			sutler_container_unsettled_timestamp_seconds{container="0/lxd/0",outcome="failed",type="lxd"} 9.466848e+08
			sutler_operator_application_failures{application="broken"} 3
			sutler_operator_application_unsettled_timestamp_seconds{application="broken",outcome="failed"} 9.466848e+08
			sutler_operator_applications_omitted 0
		`, "sutler_container_containers_omitted", "sutler_container_failures", "sutler_container_unsettled_timestamp_seconds",
			"sutler_operator_application_failures", "sutler_operator_application_unsettled_timestamp_seconds",
			"sutler_operator_applications_omitted")
	})
}

func TestSeriesOfSingleApplicationsAreBounded(t *testing.T) {
	story(t, prometheus.Config{ApplicationLabels: true}, func(w *world) {
		w.operators.Concurrency = 1000
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("boom")}})
		for i := range 250 {
			w.controller.AddApplication(fmt.Sprintf("app-%c%c", 'a'+i/26, 'a'+i%26), fakes.App{})
		}
		// One whose name is no text must not spoil the collection.
		w.controller.AddApplication("\xff", fakes.App{})
		w.startOperators()
		if n := len(exposed(t, w.registry, "sutler_operator_application_failures")); n != prometheus.MaxLabelled {
			t.Errorf("%d applications have a series, want %d", n, prometheus.MaxLabelled)
		}
		w.sees("sutler_operator_applications_omitted 150", "sutler_operator_applications_omitted")

		// The same application of two models has one series.
		other := fakes.NewController(w.faults)
		other.AddApplication("app-aa", fakes.App{})
		w.operators.Facade, w.operators.OperatorManager = other, fakes.NewManager(w.faults)
		w.startOperators()
		w.sees("sutler_operator_applications_omitted 151", "sutler_operator_applications_omitted")
	})
}

// Everything at once, for the race detector.
func TestCollectionsAndWorkersDoNotDisturbEachOther(t *testing.T) {
	registry := client.NewPedanticRegistry()
	m := newMetrics(t, prometheus.Config{Registerer: registry, ApplicationLabels: true})
	faults := fakes.NewFaults(clock.WallClock)
	controller := fakes.NewController(faults)
	w, err := provisioner.New(provisioner.Config{
		Facade: controller, OperatorManager: fakes.NewManager(faults), Agent: fakes.NewAgent(controller.CACert()),
		ModelUUID: fakes.ModelUUID, Clock: clock.WallClock, Metrics: m.Operators(),
	})
	if err != nil {
		t.Fatal(err)
	}
	lock := m.Lock(fakes.NewLock(faults))
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				controller.AddApplication(fmt.Sprintf("app-%c%c", 'a'+g, 'a'+i%26), fakes.App{})
				m.Setup().PhaseDone(containersetup.PhaseAttempt{Type: containersetup.ContainerType(fmt.Sprintf("t%d", i))})
				if _, err := registry.Gather(); err != nil {
					t.Error(err)
				}
				release, err := lock.Acquire(t.Context(), containersetup.Holder{Worker: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
					return
				}
				release()
			}
		})
	}
	wg.Wait()
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
}
