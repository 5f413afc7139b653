package containersetup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestFirstContainerHasItsTypePrepared(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetManagerConfig(lxd, facade.ContainerManagerConfig{"image-source": "local"})
		w.start()
		if n := len(w.faults.Calls()); n > 4 {
			t.Errorf("%d calls although nobody asked for a container: %v", n, w.faults.Calls())
		}
		w.ask("0/lxd/0")
		w.ready(lxd)
		var order []string
		for _, c := range w.faults.Calls() {
			switch c.Method {
			case "ContainerManagerConfig", "Acquire", "Initialise", "Observe", "SetHostMachineNetworkConfig", "NewBroker":
				order = append(order, c.Method)
			}
		}
		want := "ContainerManagerConfig Acquire Initialise Observe SetHostMachineNetworkConfig Observe NewBroker"
		if got := strings.Join(order, " "); got != want { // H18
			t.Errorf("calls were %s\nwant            %s", got, want)
		}
		if _, settings := w.host.Brokers(lxd); settings["image-source"] != "local" {
			t.Errorf("the broker was made with %v", settings)
		}
		config := w.provisioners.started()[0].config
		if config.MachineID != "0" || config.Type != lxd || config.Broker == nil || config.Preparer == nil || config.Facade == nil {
			t.Errorf("the provisioner was made with %+v", config)
		}
		if network, n := w.machine.Network(); n != 1 || len(network) == 0 {
			t.Errorf("the network was published %d times: %v", n, network)
		}
	})
}

func TestContainerThatIsThereAtTheStartIsEnough(t *testing.T) {
	story(t, func(w *world) {
		w.ask("0/lxd/0")
		w.start()
		w.ready(lxd)
	})
}

func TestRepeatedIDsPrepareOnce(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.ask("0/lxd/0", "0/lxd/1")
		for range 5 {
			w.machine.ContainerWatchers("")[0].Send([]string{"0/lxd/0", "0/lxd/0", "0/lxd/1"})
			synctest.Wait()
		}
		w.ready(lxd)
	})
}

// H1: a restart of the agent goes the same way, and initialisers do nothing
// twice.
func TestRestartPreparesNothingTwice(t *testing.T) {
	story(t, func(w *world) {
		w.ask("0/lxd/0")
		for range 3 {
			w.start()
			w.after(time.Minute)
			w.stop()
		}
		if n := w.host.Initialisations(lxd); n != 1 {
			t.Errorf("the host was prepared %d times, want once", n)
		}
		if n := len(w.provisioners.started()); n != 3 {
			t.Errorf("%d provisioners were started, want 3", n)
		}
	})
}

func TestContainerThatIsGonePreparesNothing(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.machine.ContainerWatchers("")[0].Send([]string{"0/lxd/7"})
		w.after(time.Hour)
		if n := w.count("Initialise"); n != 0 {
			t.Error("the host was prepared for a container that is gone")
		}
		if got := w.phase(lxd)["phase"]; got != "idle" {
			t.Errorf("the phase is %v, want idle", got)
		}
		w.ask("0/lxd/8")
		w.ready(lxd)
	})
}

func TestDeadContainerHasItsTypePreparedSoThatItCanBeRemoved(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/0", fakes.Container{Life: facade.Dead, InstanceID: "juju-x"})
		w.start()
		w.ready(lxd)
	})
}

// H17: the watcher stops when the set of types is prepared, whatever the order
// and repetitions.
func TestWatcherStopsWhenEveryTypeIsPrepared(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetSupported(lxd, kvm, lxd, kvm)
		w.start()
		w.ask("0/lxd/0", "0/lxd/1")
		if len(w.machine.ContainerWatchers("")) != 1 {
			t.Fatal("the watcher stopped after the first type")
		}
		w.ask("0/kvm/0")
		w.ready(lxd, kvm)
		if len(w.machine.ContainerWatchers("")) != 0 {
			t.Error("the watcher goes on")
		}
		if got := w.worker.Report()["watching"]; got != false {
			t.Errorf("watching is reported as %v", got)
		}
		w.after(time.Hour) // and the worker lives
		w.ready(lxd, kvm)
	})
}

func TestSlowTypeDelaysNoOther(t *testing.T) {
	for _, method := range []string{"Initialise", "ContainerManagerConfig", "NewBroker"} {
		story(t, func(w *world) {
			gate := fakes.NewGate()
			w.faults.Add(fakes.Rule{Method: method, Key: "lxd", Effect: fakes.Effect{Gate: gate}})
			if method == "Initialise" {
				// One lock over all types holds KVM up, and nothing else.
				w.config.Lock = w.host.Lock()
			}
			w.start()
			w.ask("0/lxd/0", "0/kvm/0")
			if method == "Initialise" {
				gate.Release()
				w.after(time.Second)
			} else {
				w.ready(kvm)
				gate.Release()
				w.after(time.Minute)
			}
			if n := len(w.provisioners.running()); n != 2 {
				t.Errorf("%s: %d provisioners run, want 2", method, n)
			}
		})
	}
}

// H5: what changes the host does so under one lock over all types.
func TestTypesChangeTheHostOneAfterTheOther(t *testing.T) {
	story(t, func(w *world) {
		w.host.SetInitialiseTime(time.Minute)
		w.start()
		w.ask("0/lxd/0", "0/kvm/0")
		w.after(3 * time.Minute)
		for _, kind := range []containersetup.ContainerType{lxd, kvm} {
			if n := w.host.Initialisations(kind); n != 1 {
				t.Errorf("prepared for %s %d times, want once", kind, n)
			}
		}
		if n := len(w.host.Lock().History()); n != 2 {
			t.Errorf("the lock was held %d times, want 2", n)
		}
	})
}

func TestEachPhaseIsRetriedByItselfAndNoneRepeated(t *testing.T) {
	for method, phase := range map[string]containersetup.Phase{
		"ContainerManagerConfig":      containersetup.PhaseSettings,
		"Acquire":                     containersetup.PhaseInitialise,
		"Initialise":                  containersetup.PhaseInitialise,
		"Observe":                     containersetup.PhaseNetwork,
		"SetHostMachineNetworkConfig": containersetup.PhaseNetwork,
		"NewBroker":                   containersetup.PhaseBroker,
	} {
		for about, effect := range map[string]fakes.Effect{
			"an error":     {Err: boom},
			"a lost reply": {Err: boom, Act: fakes.Fully},
			"half":         {Err: boom, Act: fakes.Half},
			"a panic":      {Panic: "boom"},
		} {
			t.Run(method+" "+about, func(t *testing.T) {
				story(t, func(w *world) {
					w.faults.Add(fakes.Rule{Method: method, Times: 4, Effect: effect})
					w.start()
					w.ask("0/lxd/0")
					w.told("0/lxd/0", facade.ContainerPending, string(phase)+": ")
					w.told("0/lxd/0", facade.ContainerPending, "boom (next attempt at 2000-01-01T00:00:01Z)")
					entry := w.phase(lxd)
					if entry["phase"] != string(phase) || entry["attempts"] != 1 || entry["next"] == nil ||
						!strings.Contains(entry["error"].(string), "boom") {
						t.Errorf("reported as %v", entry)
					}
					w.after(14 * time.Second)
					if len(w.provisioners.running()) != 0 {
						t.Error("did not back off")
					}
					w.after(2 * time.Second) // 1, 3, 7, 15 s
					if n := len(w.provisioners.running()); n != 1 {
						t.Fatalf("%d provisioners run, want 1", n)
					}
					if n := w.host.Initialisations(lxd); n != 1 {
						t.Errorf("prepared %d times, want once", n)
					}
					w.told("0/lxd/0", facade.ContainerPending, "") // cleared
					for _, other := range []string{"ContainerManagerConfig", "Initialise", "NewBroker"} {
						if n := w.count(other); other != method && n != 1 {
							t.Errorf("%s was called %d times, want once", other, n)
						}
					}
					if n := len(w.log.Lines("level=WARN")); n != 1 {
						t.Errorf("warned %d times, want once:\n%s", n, w.log.Text())
					}
				})
			})
		}
	}
}

func TestContainersThatComeMeanwhileAreToldToo(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "Initialise", Times: 6, Effect: fakes.Effect{Err: boom}})
		w.start()
		w.ask("0/lxd/0")
		w.after(10 * time.Second)
		calls := w.count("Initialise")
		w.ask("0/lxd/1")
		w.told("0/lxd/1", facade.ContainerPending, "boom")
		if w.count("Initialise") != calls {
			t.Error("a new container cut the back-off short")
		}
		// One that ran before is not said to be pending.
		w.machine.AddContainer("0/lxd/2", fakes.Container{InstanceID: "juju-2", State: facade.ContainerRunning})
		w.after(20 * time.Second)
		w.told("0/lxd/2", facade.ContainerRunning, "")
		w.after(time.Hour)
		w.ready(lxd)
		w.told("0/lxd/0", facade.ContainerPending, "")
		w.told("0/lxd/1", facade.ContainerPending, "")
	})
}

func TestStatusThatCannotBeToldHoldsNothingUp(t *testing.T) {
	for about, effect := range map[string]fakes.Effect{
		"fails":  {Err: boom},
		"panics": {Panic: "boom"},
		"short":  {Answer: fakes.Short[error]()},
	} {
		t.Run(about, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "SetContainerStatus", Times: fakes.Always, Effect: effect})
				w.faults.Add(fakes.Rule{Method: "Initialise", Times: 3, Effect: fakes.Effect{Err: boom}})
				w.start()
				w.ask("0/lxd/0")
				w.after(time.Minute)
				w.ready(lxd)
			})
		})
	}
}

func TestStatusIsToldAgainUntilItArrives(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetContainerStatus", Times: 3, Effect: fakes.Effect{Err: boom}})
		w.faults.Add(fakes.Rule{Method: "Initialise", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.start()
		w.ask("0/lxd/0")
		w.after(30 * time.Second)
		w.told("0/lxd/0", facade.ContainerPending, "initialise: boom")
	})
}

// H14: given up at first sight, one log line, status told.
func TestUnsupportedHostIsGivenUpAtFirstSight(t *testing.T) {
	story(t, func(w *world) {
		w.host.SetUnsupported(kvm)
		w.start()
		w.ask("0/kvm/0", "0/lxd/0")
		w.ready(lxd)
		w.told("0/kvm/0", facade.ContainerError, "kvm containers cannot be had on this machine")
		w.after(time.Hour)
		if n := len(w.log.Lines("level=WARN", "type=kvm")); n != 1 {
			t.Errorf("warned %d times, want once", n)
		}
		if n := len(w.phases.of(kvm, containersetup.PhaseInitialise)); n != 1 {
			t.Errorf("tried %d times, want once", n)
		}
		w.ask("0/kvm/1") // and who comes later is told, too
		w.told("0/kvm/1", facade.ContainerError, "kvm containers cannot be had on this machine")
		if got := w.phase(kvm)["phase"]; got != "refused" {
			t.Errorf("the phase is %v", got)
		}
	})
}

func TestTypeThatCannotBeHadIsToldOnce(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetSupported(lxd)
		w.config.Backends = w.host.Backends(kvm)
		w.start()
		w.ask("0/kvm/0", "0/podman/0", "0/lxd/0")
		w.told("0/kvm/0", facade.ContainerError, "this machine supports lxd")
		w.told("0/podman/0", facade.ContainerError, "this machine supports lxd")
		w.told("0/lxd/0", facade.ContainerError, "this agent has a back end for kvm")
		for range 3 {
			w.machine.ContainerWatchers("")[0].Send([]string{"0/kvm/0"})
			synctest.Wait()
		}
		if n := len(w.machine.Statuses("0/kvm/0")); n > 2 {
			t.Errorf("the status was set %d times", n)
		}
		if n := len(w.log.Lines("level=WARN", "type=kvm")); n != 1 {
			t.Errorf("warned %d times, want once", n)
		}
		if got := w.worker.Report()["refused"]; got != 3 {
			t.Errorf("%v containers are reported as refused, want 3", got)
		}
	})
}

func TestOnlyDirectChildrenOfThisMachineCount(t *testing.T) {
	strange := []string{"", "0", "0/", "0/lxd", "1/lxd/0", "0/lxd/0/kvm/0", "0/lxd/x", "0//0", "../lxd/0", "0/LXD/0", "0/lxd/-1", "0/lxd/00"}
	story(t, func(w *world) {
		w.start()
		for range 3 {
			w.machine.ContainerWatchers("")[0].Send(strange)
			synctest.Wait()
		}
		if n := w.count("Initialise"); n != 0 {
			t.Error("a host was prepared for somebody else's container")
		}
		if n := len(w.log.Lines("container skipped")); n != len(strange) {
			t.Errorf("%d ids were logged, want each of %d once", n, len(strange))
		}
		if got := w.worker.Report()["skipped-total"]; got != len(strange) {
			t.Errorf("%v are reported as skipped", got)
		}
		w.ask("0/lxd/0")
		w.ready(lxd)
	})
}

func TestTenThousandIDsInOneEvent(t *testing.T) {
	story(t, func(w *world) {
		ids := make([]string, 0, 20000)
		for i := range 10000 {
			id := fmt.Sprintf("0/lxd/%d", i)
			w.machine.AddContainer(id, fakes.Container{})
			ids = append(ids, id, fmt.Sprintf("9/lxd/%d", i))
		}
		w.start()
		w.machine.ContainerWatchers("")[0].Send(ids)
		w.after(time.Minute)
		w.ready(lxd)
		if n := w.count("Containers"); n < 20 || n > 100 {
			t.Errorf("10,000 containers were read in %d calls", n)
		}
	})
}

func TestMachineWithoutContainersEndsTheWorkerAfterTellingThem(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetSupported()
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.start()
		if err := w.ended(); !errors.Is(err, errors.NotSupported) {
			t.Errorf("the worker ended with %v, want NotSupported", err)
		}
		w.told("0/lxd/0", facade.ContainerError, "supports none")
	})
}

func TestSupportedTypesAreAskedForUntilTheyAreKnown(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SupportedContainers", Times: 3, Effect: fakes.Effect{Err: boom}})
		w.ask("0/lxd/0")
		w.start()
		if got, _ := w.worker.Report()["error"].(string); !strings.Contains(got, "boom") {
			t.Errorf("the error is reported as %q", got)
		}
		w.after(time.Minute)
		w.ready(lxd)
	})
}

func TestSupportedTypesMayBeGiven(t *testing.T) {
	story(t, func(w *world) {
		w.config.SupportedTypes = []containersetup.ContainerType{lxd, lxd}
		w.ask("0/lxd/0")
		w.start()
		w.ready(lxd)
		if n := w.count("SupportedContainers"); n != 0 {
			t.Error("the controller was asked all the same")
		}
		if len(w.machine.ContainerWatchers("")) != 0 {
			t.Error("the watcher goes on, although all types are prepared")
		}
	})
}

func TestProvisionerThatDiesIsRestartedAloneAndTheHostLeftAlone(t *testing.T) {
	for about, end := range map[string]func(*provisioner){
		"with an error":    func(p *provisioner) { p.Fail(boom) },
		"without an error": func(p *provisioner) { p.End() },
	} {
		t.Run(about, func(t *testing.T) {
			story(t, func(w *world) {
				w.start()
				w.ask("0/lxd/0", "0/kvm/0")
				end(w.provisioners.started()[0])
				w.after(time.Minute)
				if n := len(w.provisioners.running()); n != 2 {
					t.Errorf("%d provisioners run, want 2", n)
				}
				if n := len(w.provisioners.started()); n != 3 {
					t.Errorf("%d were started in all, want 3", n)
				}
				if n := w.count("Initialise"); n != 2 {
					t.Errorf("Initialise was called %d times, want 2", n)
				}
			})
		})
	}
}

func TestProvisionerThatCannotBeStartedIsRetried(t *testing.T) {
	story(t, func(w *world) {
		w.provisioners.fail = boom
		w.start()
		w.ask("0/lxd/0")
		w.after(10 * time.Second)
		w.provisioners.mu.Lock()
		w.provisioners.fail = nil
		w.provisioners.mu.Unlock()
		w.after(10 * time.Second)
		w.ready(lxd)
	})
}

func TestLostConnectionOfAProvisionerEndsTheWorker(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.ask("0/lxd/0")
		w.provisioners.started()[0].Fail(errors.WithType(boom, facade.ErrConnectionLost))
		if err := w.ended(); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("the worker ended with %v, want ErrConnectionLost", err)
		}
	})
}

func TestLostConnectionEndsTheWorkerAndNothingElseOfTheControllerDoes(t *testing.T) {
	for _, method := range []string{
		"SupportedContainers", "WatchAllContainers", "Containers", "ContainerManagerConfig",
		"SetHostMachineNetworkConfig", "SetContainerStatus",
	} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.WithType(boom, facade.ErrConnectionLost)}})
				w.faults.Add(fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Err: boom}}) // something to tell
				w.ask("0/lxd/0")
				w.start()
				if err := w.ended(); !errors.Is(err, facade.ErrConnectionLost) {
					t.Errorf("the worker ended with %v, want ErrConnectionLost", err)
				}
			})
		})
	}
}

func TestWatcherThatEndsEndsTheWorker(t *testing.T) { // H16
	for why, end := range map[string]func(*fakes.Watcher[[]string]){
		"boom":                   func(w *fakes.Watcher[[]string]) { w.Fail(boom) },
		"closed its channel":     (*fakes.Watcher[[]string]).Close,
		"ended without an error": (*fakes.Watcher[[]string]).End,
	} {
		t.Run(why, func(t *testing.T) {
			story(t, func(w *world) {
				w.start()
				w.ask("0/lxd/0")
				end(w.machine.ContainerWatchers("")[0])
				if err := w.ended(); err == nil || !strings.Contains(err.Error(), why) {
					t.Errorf("the worker ended with %v, want %q", err, why)
				}
				if n := len(w.provisioners.running()); n != 0 {
					t.Error("its provisioner goes on")
				}
			})
		})
	}
}

// H15, H19: whoever has the lock is told of, and waiting for it can be ended.
func TestLockHeldByOthersIsWaitedForAndReported(t *testing.T) {
	story(t, func(w *world) {
		free := w.host.Lock().Occupy(containersetup.Holder{Worker: "uniter", Reason: "hook install"}, 4711)
		w.start()
		w.ask("0/lxd/0")
		w.after(10 * time.Minute)
		if got := w.phase(lxd)["lock-wait"]; got != "10m0s" {
			t.Errorf("the lock wait is reported as %v", got)
		}
		w.stop() // ends while it waits
		w.start()
		w.after(time.Minute)
		free()
		w.after(time.Second)
		w.ready(lxd)
		attempt := w.phases.of(lxd, containersetup.PhaseInitialise)
		if last := attempt[len(attempt)-1]; last.LockWait != time.Minute || last.Duration != 0 {
			t.Errorf("metrics heard of %+v", last)
		}
	})
}

func TestInterfaceThatIsNoneIsLeftOut(t *testing.T) {
	story(t, func(w *world) {
		odd := fakes.HostInterfaces()
		odd[0].Name = "a name with spaces"
		w.host.SetInterfaces(odd...)
		w.start()
		w.ask("0/lxd/0")
		w.ready(lxd)
		if network, _ := w.machine.Network(); len(network) != len(odd)-1 {
			t.Errorf("published %v", network)
		}
		if len(w.log.Lines("level=WARN", "interface left out")) == 0 {
			t.Error("nobody was told")
		}
	})
}

func TestNothingObservedIsNothingPublished(t *testing.T) {
	story(t, func(w *world) {
		w.host.SetInterfaces()
		w.start()
		w.ask("0/lxd/0")
		w.ready(lxd)
		if _, n := w.machine.Network(); n != 0 {
			t.Errorf("an empty network was published %d times", n)
		}
	})
}

func TestAnswersAreChecked(t *testing.T) {
	tests := []struct {
		method, reason string
		answer         func(any) any
	}{
		{"NewBroker", "nil broker", fakes.Return(nil)},
	}
	for _, test := range tests {
		t.Run(test.method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: test.method, Times: 2, Effect: fakes.Effect{Answer: test.answer}})
				w.start()
				w.ask("0/lxd/0")
				w.told("0/lxd/0", facade.ContainerPending, test.reason)
				w.after(time.Minute)
			})
		})
	}
	for about, answer := range map[string]func(any) any{
		"short": fakes.Short[facade.ContainerResult](),
		"nil":   fakes.Return(nil),
		"unknown life": fakes.Alter(func(list []facade.ContainerResult) []facade.ContainerResult {
			list[0].Life = "undead"
			return list
		}),
	} {
		t.Run("Containers "+about, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "Containers", Times: 3, Effect: fakes.Effect{Answer: answer}})
				w.start()
				w.ask("0/lxd/0")
				if w.count("Initialise") != 0 {
					t.Error("the host was prepared on a guess")
				}
				w.after(time.Minute)
				w.ready(lxd)
			})
		})
	}
}

func TestLockWithoutAWayToReleaseItIsNoLock(t *testing.T) {
	story(t, func(w *world) {
		w.config.Lock = nilLock{}
		w.start()
		w.ask("0/lxd/0")
		w.told("0/lxd/0", facade.ContainerPending, "nil release")
		if w.count("Initialise") != 0 {
			t.Error("the host was changed without the lock")
		}
	})
}

// nilLock is a lock that is broken.
type nilLock struct{}

func (nilLock) Acquire(context.Context, containersetup.Holder) (func(), error) { return nil, nil }

// The settings are read anew when they are what the back end complains of.
func TestSettingsThatTheBackEndRefusesAreReadAnew(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "NewBroker", Times: 3, Effect: fakes.Effect{Err: errors.NotValidf("image-source")}})
		w.start()
		w.ask("0/lxd/0")
		w.after(time.Minute)
		if n := w.count("ContainerManagerConfig"); n != 4 {
			t.Errorf("the settings were read %d times, want 4", n)
		}
		if n := w.host.Initialisations(lxd); n != 1 || len(w.provisioners.running()) != 1 {
			t.Errorf("prepared %d times", n)
		}
	})
}

// following is an initialiser that follows the settings.
type following struct {
	containersetup.Initialiser
	refuse   int // so many times
	settings []facade.ContainerManagerConfig
}

func (f *following) WithSettings(settings facade.ContainerManagerConfig) (containersetup.Initialiser, error) {
	f.settings = append(f.settings, settings)
	if len(f.settings) <= f.refuse {
		return nil, errors.NotValidf("channel")
	}
	return f.Initialiser, nil
}

func TestInitialiserFollowsTheSettings(t *testing.T) {
	story(t, func(w *world) {
		w.machine.SetManagerConfig(lxd, facade.ContainerManagerConfig{"channel": "5.0/stable"})
		backend := w.config.Backends[lxd]
		f := &following{Initialiser: backend.Initialiser, refuse: 2}
		backend.Initialiser = f
		w.config.Backends[lxd] = backend
		w.start()
		w.ask("0/lxd/0")
		w.after(time.Minute)
		if n := w.count("ContainerManagerConfig"); n != 3 {
			t.Errorf("the settings were read %d times, want once more after each refusal", n)
		}
		if len(f.settings) != 3 || f.settings[2]["channel"] != "5.0/stable" {
			t.Errorf("it was given %v", f.settings)
		}
		if n := w.host.Initialisations(lxd); n != 1 || w.count("Acquire") != 1 {
			t.Errorf("prepared %d times, with the lock taken %d times", n, w.count("Acquire"))
		}
	})
}

func TestInitialiserThatCannotFollowTheSettingsGivesTheTypeUp(t *testing.T) {
	story(t, func(w *world) {
		backend := w.config.Backends[lxd]
		backend.Initialiser = unsupportedSettings{backend.Initialiser}
		w.config.Backends[lxd] = backend
		w.start()
		w.ask("0/lxd/0")
		w.told("0/lxd/0", facade.ContainerError, "that channel")
		if w.count("Initialise") != 0 {
			t.Error("the host was changed")
		}
	})
}

type unsupportedSettings struct{ containersetup.Initialiser }

func (unsupportedSettings) WithSettings(facade.ContainerManagerConfig) (containersetup.Initialiser, error) {
	return nil, errors.NotSupportedf("that channel")
}

func TestKillReturnsWithinASecondWhateverGoesOn(t *testing.T) {
	for _, method := range []string{
		"SupportedContainers", "WatchAllContainers", "Containers", "ContainerManagerConfig", "Acquire", "Initialise",
		"Observe", "SetHostMachineNetworkConfig", "NewBroker", "SetContainerStatus",
	} {
		t.Run("blocked in "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				w.faults.Add(fakes.Rule{Method: "Initialise", Effect: fakes.Effect{Err: boom}}) // something to tell
				w.ask("0/lxd/0")
				w.start()
				w.after(2 * time.Second)
				if w.count(method) == 0 {
					t.Errorf("%s was not called", method)
				}
				w.stop()
			})
		})
	}
}

func TestCallThatBlocksTimesOut(t *testing.T) { // H10, H20
	for _, method := range []string{
		"SupportedContainers", "Containers", "ContainerManagerConfig", "Initialise",
		"Observe", "SetHostMachineNetworkConfig", "NewBroker", "SetContainerStatus",
	} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				w.ask("0/lxd/0")
				w.start()
				w.after(time.Hour)
				if n := len(w.provisioners.running()); n != 1 {
					t.Errorf("%d provisioners run, want 1", n)
				}
			})
		})
	}
}

func TestPanicOfTheHostsMetricsIsLogged(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = explosive{}
		w.start()
		w.ask("0/lxd/0")
		w.ready(lxd)
		if len(w.log.Lines("metrics panicked")) == 0 {
			t.Error("the panic was swallowed")
		}
	})
}

type explosive struct{}

func (explosive) PhaseDone(containersetup.PhaseAttempt) { panic("metrics") }

func TestReportAnswersAfterTheEnd(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.ask("0/lxd/0")
		worker := w.worker
		w.stop()
		if worker.Report()["types"] == nil {
			t.Error("no types")
		}
	})
}

// One container that cannot be read holds up neither the look at others nor the
// preparation for them.
func TestContainerThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.ask("0/lxd/0")
		w.machine.SetLife("0/lxd/0", "undead")
		w.stop()
		w.host.Reinstall()
		w.faults = fakes.NewFaults(clock.WallClock)
		w.config.Facade = w.machine.Session(w.faults)
		host := w.host.Session(w.faults)
		w.config.Backends, w.config.Lock, w.config.Network = host.Backends(lxd, kvm), host.Lock(), host.Network()
		w.start()
		w.after(10 * time.Minute) // by now the next look is far off
		if w.host.Initialisations(lxd) != 0 {
			t.Fatal("the host was prepared on a guess")
		}
		w.ask("0/lxd/1")
		if n := w.host.Initialisations(lxd); n != 1 {
			t.Errorf("prepared %d times, want once, at once", n)
		}
	})
}
