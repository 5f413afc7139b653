package containerprovisioner_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// methods are all that a pass may call.
var methods = []string{
	"Containers", "HostChangesForContainer", "ProvisioningInfo", "PrepareContainerInterfaceInfo", "SetContainerStatus",
	"StartInstance", "SetInstanceInfo", "AllInstances", "StopInstances", "ReleaseContainerAddresses", "MarkForRemoval",
}

// lived tells of a container's life in which every method is called, and
// reports whether that was.
func lived(w *world, method string) bool {
	w.config.Preparer = preparer{w.machine}
	w.add("0/lxd/1")
	w.start()
	w.after(10 * time.Second)
	w.machine.SetLife("0/lxd/1", facade.Dead)
	w.after(10 * time.Second)
	return slices.ContainsFunc(w.faults.Calls(), func(c fakes.Call) bool { return c.Method == method })
}

func TestKillReturnsWithinASecondWhateverGoesOn(t *testing.T) {
	for _, method := range append(slices.Clone(methods), "WatchContainers", "WatchHarvestMode", "HarvestMode") {
		t.Run("blocked in "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.machine
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				if !lived(w, method) {
					t.Errorf("%s was never called", method)
				}
				calls := len(w.faults.Calls())
				killed := time.Now()
				w.stop()
				if took := time.Since(killed); took > time.Second {
					t.Errorf("it took %v to stop", took)
				}
				if more := w.faults.Calls()[calls:]; len(more) > 0 {
					t.Errorf("calls were made after the end: %v", more)
				}
				if lines := w.log.Lines("canceled"); len(lines) > 0 {
					t.Errorf("being killed is no error, and was logged: %q", lines)
				}
			})
		})
	}
}

// H11: every call has a deadline, and what blocked goes on afterwards.
func TestCallThatBlocksTimesOut(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.CallTimeout, w.config.StartTimeout, w.config.StopTimeout = 3*time.Second, 4*time.Second, 5*time.Second
				w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				lived(w, method)
				w.add("0/lxd/2")
				w.after(time.Minute)
				w.removed("0/lxd/1")
				w.provisioned("0/lxd/2")
				if method != "SetContainerStatus" && len(w.log.Lines("no answer within")) == 0 {
					t.Errorf("nothing says that the call timed out:\n%s", w.log.Text())
				}
			})
		})
	}
}

func TestPanicIsOneContainersFailure(t *testing.T) {
	for _, method := range methods {
		t.Run("in "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: 3, Effect: fakes.Effect{Panic: "the sky is falling"}})
				lived(w, method)
				w.add("0/lxd/2")
				w.after(time.Minute)
				w.removed("0/lxd/1")
				w.provisioned("0/lxd/2")
				if n := len(w.log.Lines("level=ERROR", "stack=", "the sky is falling")); n == 0 || n > 3 {
					t.Errorf("the stack was logged %d times", n)
				}
			})
		})
	}
}

func TestRepeatedPanicLogsItsStackOnce(t *testing.T) {
	for _, method := range []string{"StopInstances", "SetInstanceInfo", "AllInstances"} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Panic: "again"}})
				w.machine.AddContainer("0/lxd/2", fakes.Container{Life: facade.Dead, InstanceID: "x"})
				w.add("0/lxd/1")
				w.start()
				w.after(time.Hour)
				if n := len(w.log.Lines("stack=")); n != 1 {
					t.Errorf("the stack was logged %d times, want once:\n%s", n, w.log.Text())
				}
			})
		})
	}
}

func TestPanicOfTheHostsMetricsIsLogged(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = explosive{}
		w.add("0/lxd/1")
		w.start()
		w.provisioned("0/lxd/1")
		if len(w.log.Lines("metrics panicked")) == 0 {
			t.Error("the panic was swallowed")
		}
	})
}

type explosive struct{}

func (explosive) PassDone(containerprovisioner.Pass) { panic("metrics") }

// Good containers are ready as soon as without bad ones beside them.
func TestGoodContainersAreNotDelayedByBadOnes(t *testing.T) {
	took := func(bad int) (took time.Duration) {
		story(t, func(w *world) {
			w.faults.SetLatency(10 * time.Millisecond)
			for i := range bad {
				id := fmt.Sprintf("0/lxd/%d", i)
				w.add(id)
				w.failing("StartInstance", id)
			}
			w.start()
			w.after(10 * time.Minute)
			start := time.Now()
			var good []string
			for i := range 50 {
				good = append(good, fmt.Sprintf("0/lxd/%d", 100+i))
			}
			w.add(good...)
			synctest.Wait()
			for w.total("settled") < 50 {
				w.after(time.Millisecond)
			}
			took = time.Since(start)
			w.provisioned(good...)
		})
		return took
	}
	if with, without := took(20), took(0); with > without+without/10 {
		t.Errorf("good containers took %v beside bad ones, %v without", with, without)
	}
}

// H20: a back end that cannot list does not keep from starting what it never had.
func TestListingThatFailsHoldsUpNoStart(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{"refused": {Err: boom}, "hangs": {Delay: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "AllInstances", Times: fakes.Always, Effect: effect})
				for i := range 50 {
					id := fmt.Sprintf("0/lxd/%d", 100+i)
					w.machine.AddContainer(id, fakes.Container{InstanceID: string(fakes.InstanceID(id))})
				}
				w.machine.AddContainer("0/lxd/2", fakes.Container{Life: facade.Dead, InstanceID: string(fakes.InstanceID("0/lxd/2"))})
				w.host.AddInstance("0/lxd/2", true)
				w.add("0/lxd/1")
				w.start()
				w.after(time.Hour)
				w.provisioned("0/lxd/1")
				for _, id := range []string{"0/lxd/2", "0/lxd/100", "0/lxd/149"} {
					if got, _ := w.entry(id)["error"].(string); !strings.HasPrefix(got, "listing instances: ") {
						t.Errorf("the reason for %s is %q, want that instances are not listed", id, got)
					}
					w.status(id, facade.ContainerPending, "")
				}
				if n := w.faults.Count("StopInstances", ""); n != 0 {
					t.Errorf("instances were stopped %d times", n)
				}
				if n := w.faults.Count("AllInstances", "lxd"); n > 100 {
					t.Errorf("instances were listed %d times in an hour, want once for each back-off", n)
				}
				if n := len(w.log.Lines("instances not listed", "level=WARN")); n != 1 {
					t.Errorf("that was logged %d times, want once", n)
				}
				if got := w.worker.Report()["instances"].(map[string]any)["error"]; got == nil {
					t.Error("the report does not say that it fails")
				}
				w.faults.Clear()
				w.after(5 * time.Minute)
				w.removed("0/lxd/2")
			})
		})
	}
}

func TestListingIsSharedByABurst(t *testing.T) {
	story(t, func(w *world) {
		w.faults.SetLatency(10 * time.Millisecond)
		for i := range 500 {
			id := fmt.Sprintf("0/lxd/%d", i)
			w.machine.AddContainer(id, fakes.Container{InstanceID: string(fakes.InstanceID(id)), State: facade.ContainerRunning})
			w.host.AddInstance(id, true)
		}
		w.start()
		w.after(time.Minute)
		if n := w.total("settled"); n != 500 {
			t.Errorf("%d are settled, want 500", n)
		}
		if n := w.faults.Count("AllInstances", "lxd"); n > 5 {
			t.Errorf("500 containers took %d listings, want a few", n)
		}
		w.faults.Reset()
		w.after(10 * time.Minute)
		if n := w.faults.Count("AllInstances", "lxd"); n == 0 || n > 5 {
			t.Errorf("a resync took %d listings, want a few", n)
		}
	})
}

func TestWatcherThatEndsEndsTheWorker(t *testing.T) {
	ends := map[string]func(breakable){
		"boom":                   func(w breakable) { w.Fail(boom) },
		"closed its channel":     breakable.Close,
		"ended without an error": breakable.End,
	}
	for why, end := range ends {
		for _, name := range []string{"containers", "harvest mode"} {
			t.Run(name+" "+why, func(t *testing.T) {
				story(t, func(w *world) {
					w.config.Facade = w.machine
					w.start()
					if name == "containers" {
						end(w.machine.ContainerWatchers("lxd")[0])
					} else {
						end(w.machine.HarvestWatchers()[0])
					}
					if err := w.ended(); err == nil || !strings.Contains(err.Error(), why) {
						t.Errorf("the worker ended with %v, want %q", err, why)
					}
				})
			})
		}
	}
}

// breakable is a watcher of the fakes.
type breakable interface {
	Fail(error)
	Close()
	End()
}

func TestWatcherThatCannotBeHadEndsTheWorker(t *testing.T) {
	tests := []struct {
		name   string
		method string
		effect fakes.Effect
		want   string
	}{
		{"refused", "WatchContainers", fakes.Effect{Err: boom}, "watching containers: boom"},
		{"nil", "WatchContainers", fakes.Effect{Answer: fakes.Return(nil)}, "nil watcher of containers"},
		{"hangs", "WatchContainers", fakes.Effect{Delay: time.Hour}, "watching containers: no answer within 30s"},
		{"without a channel", "WatchContainers", fakes.Effect{Answer: fakes.Return(mute{fakes.NewStringsWatcher()})}, "nil channel"},
		{"harvest refused", "WatchHarvestMode", fakes.Effect{Err: boom}, "watching harvest mode: boom"},
		{"harvest nil", "WatchHarvestMode", fakes.Effect{Answer: fakes.Return(nil)}, "nil watcher of harvest mode"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.machine
				if test.name == "without a channel" {
					test.effect.Answer = fakes.Return(mute{fakes.NewStringsWatcher()})
				}
				w.faults.Add(fakes.Rule{Method: test.method, Effect: test.effect})
				w.start()
				if err := w.ended(); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the worker ended with %v, want %q", err, test.want)
				}
			})
		})
	}
}

// mute is a watcher without a channel of changes.
type mute struct{ *fakes.Watcher[[]string] }

func (mute) Changes() <-chan []string { return nil }

func TestLostConnectionEndsTheWorker(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				lost := errors.WithType(errors.New("broken pipe"), facade.ErrConnectionLost)
				w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Err: lost}})
				lived(w, method)
				switch method {
				case "AllInstances", "StartInstance", "StopInstances":
					return // not the controller's
				}
				if err := w.ended(); !errors.Is(err, facade.ErrConnectionLost) {
					t.Errorf("the worker ended with %v, want a lost connection", err)
				}
			})
		})
	}
}

func TestHostSaysWhatIsFatal(t *testing.T) {
	story(t, func(w *world) {
		w.config.IsFatal = func(err error) bool { return errors.Is(err, boom) }
		w.failing("ProvisioningInfo", "")
		w.add("0/lxd/1")
		w.start()
		if err := w.ended(); !errors.Is(err, boom) {
			t.Errorf("the worker ended with %v, want boom", err)
		}
	})
}

// Answers that are short, long, nil or in another order cost nobody else.
func TestAnswersThatAreWrong(t *testing.T) {
	tests := []struct {
		name, method string
		answer       func(any) any
	}{
		{"short", "Containers", fakes.Short[facade.ContainerResult]()},
		{"long", "Containers", fakes.Long[facade.ContainerResult]()},
		{"reversed", "Containers", fakes.Reversed[facade.ContainerResult]()},
		{"nil", "Containers", fakes.Return(nil)},
		{"short", "ProvisioningInfo", fakes.Short[facade.ContainerProvisioningResult]()},
		{"long", "ProvisioningInfo", fakes.Long[facade.ContainerProvisioningResult]()},
		{"reversed", "ProvisioningInfo", fakes.Reversed[facade.ContainerProvisioningResult]()},
		{"short", "SetInstanceInfo", fakes.Short[error]()},
		{"long", "SetInstanceInfo", fakes.Long[error]()},
		{"nil", "SetInstanceInfo", fakes.Return(nil)},
		{"short", "SetContainerStatus", fakes.Short[error]()},
		{"long", "SetContainerStatus", fakes.Long[error]()},
		{"short", "MarkForRemoval", fakes.Short[error]()},
		{"long", "MarkForRemoval", fakes.Long[error]()},
		{"short", "StopInstances", fakes.Short[error]()},
		{"long", "StopInstances", fakes.Long[error]()},
		{"nil", "StopInstances", fakes.Return(nil)},
		{"nil", "AllInstances", fakes.Return(nil)},
		{"nil", "PrepareContainerInterfaceInfo", fakes.Return(nil)},
	}
	for _, test := range tests {
		t.Run(test.name+" "+test.method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: test.method, Times: 6, Effect: fakes.Effect{Answer: test.answer}})
				w.faults.SetLatency(time.Millisecond) // so that batches form
				w.add("0/lxd/1", "0/lxd/2", "0/lxd/3", "0/lxd/4")
				w.start()
				w.after(time.Minute)
				w.machine.SetLife("0/lxd/1", facade.Dead)
				w.machine.SetLife("0/lxd/2", facade.Dead)
				w.after(5 * time.Minute)
				w.removed("0/lxd/1", "0/lxd/2")
				if test.method != "PrepareContainerInterfaceInfo" {
					w.provisioned("0/lxd/3", "0/lxd/4")
				}
			})
		})
	}
}

func TestIdsThatAreNotOursAreSkipped(t *testing.T) {
	foreign := []string{
		"", "0", "1/lxd/1", "0/kvm/1", "0/lxd/1/lxd/0", "0/lxd/", "0/lxd/x", "/lxd/1", "0//1", "0/lxd/01", "0/lxd/-1", "0/LXD/1",
		"0/lxd/1 ", "../../etc/passwd", "0/lxd/1\n0/lxd/2", "\x00", strings.Repeat("0/lxd/", 1<<16),
	}
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		for range 3 {
			w.machine.ContainerWatchers("lxd")[0].Send(slices.Clone(foreign))
			w.after(time.Second)
		}
		w.provisioned("0/lxd/1")
		if got := len(w.faults.Calls()); got > 20 {
			t.Errorf("%d calls were made", got)
		}
		skipped := w.worker.Report()["skipped"].(map[string]any)
		if got := len(skipped["ids"].([]any)); got != len(foreign) || skipped["total"] != 3*len(foreign) {
			t.Errorf("%d ids are reported as skipped, %v times, want %d, three times each", got, skipped["total"], len(foreign))
		}
		if n := len(w.log.Lines("skipping what is no container")); n != len(foreign) {
			t.Errorf("%d were logged, want each of %d once", n, len(foreign))
		}
		if n := len(w.log.Text()); n > 10_000 {
			t.Errorf("the log has %d bytes", n)
		}
	})
}

func TestTenThousandIdsInOneEvent(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		var ids []string
		for i := range 5_000 {
			ids = append(ids, fmt.Sprintf("7/lxd/%d", i), fmt.Sprintf("0/lxd/%d", 10+i))
		}
		goroutines := runtime.NumGoroutine()
		w.machine.ContainerWatchers("lxd")[0].Send(ids)
		w.after(time.Minute)
		w.provisioned("0/lxd/1")
		if n := w.total("settled"); n != 1 {
			t.Errorf("%d are tracked, want the one that there is", n)
		}
		if n := len(w.log.Lines("skipping")); n != 100 {
			t.Errorf("%d were logged, want 100", n)
		}
		if n := len(w.log.Lines("there are more such ids")); n != 1 {
			t.Errorf("that there are more was logged %d times, want once", n)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			t.Errorf("there are %d goroutines more", n-goroutines)
		}
		w.add("0/lxd/2")
		w.after(0)
		w.provisioned("0/lxd/2")
	})
}

func TestReportIsBounded(t *testing.T) {
	story(t, func(w *world) {
		w.failing("Containers", "")
		for i := range 300 {
			w.add(fmt.Sprintf("0/lxd/%d", i))
		}
		w.start()
		report := w.worker.Report()
		if n := len(report["containers"].([]any)); n != 100 || report["omitted"] != 200 {
			t.Errorf("%d are reported and %v omitted, want 100 and 200", n, report["omitted"])
		}
	})
}

func TestReportMayBeReadAtAnyTime(t *testing.T) {
	story(t, func(w *world) {
		w.faults.SetLatency(time.Second)
		w.add("0/lxd/1")
		worker, err := containerprovisioner.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		w.worker = worker
		for range 30 {
			worker.Report()
			w.after(500 * time.Millisecond)
		}
		w.stop()
		if got := worker.Report()["totals"].(map[string]any)["settled"]; got != 1 {
			t.Errorf("after the end %v are reported as settled, want 1", got)
		}
	})
}

// seenFromPass asks for the worker's report while it is told of a pass.
type seenFromPass struct {
	worker *containerprovisioner.Worker
	totals []map[string]any
}

func (s *seenFromPass) PassDone(containerprovisioner.Pass) {
	s.totals = append(s.totals, s.worker.Report()["totals"].(map[string]any))
}

func TestPassThatIsToldOfHasNoTurnAnyMore(t *testing.T) {
	story(t, func(w *world) {
		seen := &seenFromPass{}
		w.config.Metrics = seen
		w.failing("StartInstance", "0/lxd/0")
		w.start()
		seen.worker = w.worker
		synctest.Wait()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		synctest.Wait()
		if len(seen.totals) == 0 {
			t.Fatal("no pass was told of")
		}
		for _, totals := range seen.totals {
			if totals["starting"] != 0 || totals["running"] != 0 || totals["failed"] != 1 {
				t.Errorf("a pass that is over: %v", totals)
			}
		}
	})
}
