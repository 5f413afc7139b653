package containerprovisioner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestContainerIsStartedRecordedAndShown(t *testing.T) {
	story(t, func(w *world) {
		w.config.Preparer = preparer{w.machine}
		w.add("0/lxd/1")
		w.start()
		w.provisioned("0/lxd/1")
		want := "HostChangesForContainer ProvisioningInfo PrepareContainerInterfaceInfo SetContainerStatus StartInstance SetInstanceInfo SetContainerStatus"
		if got := w.order("0/lxd/1"); got != want {
			t.Errorf("the calls were\n%s, want\n%s", got, want)
		}
		w.add("0/lxd/2")
		w.after(time.Second)
		w.provisioned("0/lxd/1", "0/lxd/2")
		if n := w.total("settled"); n != 2 {
			t.Errorf("%d containers are settled, want 2:\n%v", n, w.worker.Report())
		}
	})
}

func TestSettledContainerIsLeftAlone(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		w.faults.Reset()
		w.after(time.Hour)
		if got := w.order("0/lxd/1"); got != "" {
			t.Errorf("within an hour there was %s", got)
		}
		w.provisioned("0/lxd/1")
	})
}

func TestDyingContainerIsLeftAlone(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/1", fakes.Container{Life: facade.Dying})
		w.add("0/lxd/2")
		w.start()
		w.machine.SetLife("0/lxd/2", facade.Dying)
		w.after(time.Hour)
		if got := strings.Join(w.host.Running(), " "); got != "0/lxd/2" {
			t.Errorf("%q run, want the one that ran before it was dying", got)
		}
	})
}

func TestDeadContainerIsStoppedReleasedAndRemoved(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		w.faults.Reset()
		w.machine.SetLife("0/lxd/1", facade.Dead)
		w.after(time.Second)
		w.removed("0/lxd/1")
		if got, want := w.order("0/lxd/1"), "StopInstances ReleaseContainerAddresses MarkForRemoval"; got != want {
			t.Errorf("the calls were %s, want %s", got, want)
		}
		if n := w.total("settled"); n != 0 {
			t.Errorf("%d containers are tracked, want none", n)
		}
	})
}

func TestDeadContainerThatNeverStartedIsRemoved(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/1", fakes.Container{Life: facade.Dead})
		w.start()
		w.removed("0/lxd/1")
		if got, want := w.order("0/lxd/1"), "ReleaseContainerAddresses MarkForRemoval"; got != want {
			t.Errorf("the calls were %s, want %s", got, want)
		}
	})
}

// What a crash in the middle of a start leaves has no record.
func TestUnrecordedInstanceOfDeadContainerIsStopped(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/1", fakes.Container{Life: facade.Dead})
		w.host.HalfMake("0/lxd/1")
		w.start()
		w.removed("0/lxd/1")
	})
}

func TestInstanceOfAnotherContainerIsNotStoppedForAWrongRecord(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.machine.AddContainer("0/lxd/2", fakes.Container{Life: facade.Dead, InstanceID: string(fakes.InstanceID("0/lxd/1"))})
		w.start()
		w.after(time.Minute)
		w.provisioned("0/lxd/1")
		w.removed("0/lxd/2")
	})
}

func TestDeadGoesBeforePending(t *testing.T) {
	for _, first := range []string{"the dead", "the pending"} {
		t.Run(first+" named first", func(t *testing.T) {
			story(t, func(w *world) {
				dead, pending := []string{"0/lxd/0", "0/lxd/1", "0/lxd/2"}, []string{"0/lxd/7", "0/lxd/8", "0/lxd/9"}
				if first == "the pending" {
					dead, pending = pending, dead
				}
				for _, id := range dead {
					w.machine.AddContainer(id, fakes.Container{Life: facade.Dead, InstanceID: string(fakes.InstanceID(id))})
					w.host.AddInstance(id, true)
				}
				w.add(pending...)
				w.config.Concurrency = 2
				w.faults.OnCall(func(c fakes.Call) fakes.Effect {
					if c.Method == "StopInstances" && !c.Item {
						return fakes.Effect{Delay: 20 * time.Second}
					}
					return fakes.Effect{Delay: 50 * time.Millisecond}
				})
				w.start()
				w.after(10 * time.Minute)
				w.removed(dead...)
				w.provisioned(pending...)
				var stopped, started time.Time
				for _, c := range w.faults.Calls() {
					switch {
					case c.Method == "StopInstances" && c.End.After(stopped):
						stopped = c.End
					case c.Method == "StartInstance" && started.IsZero():
						started = c.Start
					}
				}
				if started.Before(stopped) {
					t.Errorf("the first was started %v before the last was stopped", stopped.Sub(started))
				}
			})
		})
	}
}

// One that does not end must not hold up all the others.
func TestStopThatHangsDoesNotHoldUpStarts(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/0", fakes.Container{Life: facade.Dead})
		w.host.AddInstance("0/lxd/0", true)
		w.add("0/lxd/1", "0/lxd/2")
		w.faults.Add(fakes.Rule{Method: "StopInstances", Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()}})
		w.start()
		w.after(2*time.Minute - time.Second)
		if n := len(w.host.Running()); n != 1 {
			t.Errorf("%d run before two minutes have passed, want the dead one alone", n)
		}
		w.after(2 * time.Second)
		w.provisioned("0/lxd/1", "0/lxd/2")
		w.reported("0/lxd/0", "running", "")
		// When that is tried again, nobody waits.
		w.after(8*time.Minute + 30*time.Second)
		w.reported("0/lxd/0", "running", "stopping instances: no answer within 10m0s")
		w.add("0/lxd/3")
		w.after(time.Second)
		w.provisioned("0/lxd/3")
	})
}

// Starts that hang do not hold up stops, nor looks.
func TestStartsThatHangDoNotHoldUpStops(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/0")
		w.start()
		w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()}})
		for i := range 50 {
			w.add(fmt.Sprintf("0/lxd/%d", i+1))
		}
		w.after(time.Minute)
		if n := w.total("starting"); n != 4 {
			t.Errorf("%d are being started, want 4", n)
		}
		if n := w.total("waiting"); n != 46 {
			t.Errorf("%d wait for their turn, want 46", n)
		}
		w.machine.SetLife("0/lxd/0", facade.Dead)
		w.machine.SetLife("0/lxd/50", facade.Dead)
		w.after(time.Second)
		w.removed("0/lxd/0", "0/lxd/50")
	})
}

// H12: parallel creations time out when there are too many.
func TestStartsAreBounded(t *testing.T) {
	for _, concurrency := range []int{0, 1, 7} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Concurrency = concurrency
				w.host.SetStartTime(time.Minute)
				var ids []string
				for i := range 30 {
					ids = append(ids, fmt.Sprintf("0/lxd/%d", i))
				}
				w.add(ids...)
				w.start()
				w.after(40 * time.Minute)
				w.provisioned(ids...)
				want := concurrency
				if want == 0 {
					want = 4
				}
				if got := w.host.PeakStarts(); got != want {
					t.Errorf("%d were started at once, want %d", got, want)
				}
			})
		})
	}
}

// H12: some of many creations time out; they are tried again, and none is made
// twice.
func TestStartsThatTimeOutAreRepeatedWithoutDuplicates(t *testing.T) {
	story(t, func(w *world) {
		var ids []string
		for i := range 12 {
			ids = append(ids, fmt.Sprintf("0/lxd/%d", i))
		}
		w.add(ids...)
		w.config.StartTimeout = time.Minute
		w.faults.OnCall(func(c fakes.Call) fakes.Effect {
			if c.Method == "StartInstance" && c.N < 3 && (c.Key == ids[2] || c.Key == ids[5] || c.Key == ids[7]) {
				// Once it acts late, once not at all.
				return fakes.Effect{Late: time.Duration(c.N-1) * time.Hour, Delay: time.Duration(2-c.N) * time.Hour}
			}
			return fakes.Effect{}
		})
		w.start()
		w.after(10 * time.Minute)
		w.provisioned(ids...)
		if n := len(w.host.Instances()); n != len(ids) {
			t.Errorf("there are %d instances, want %d", n, len(ids))
		}
	})
}

func TestRecordingIsRepeatedWithoutStartingTwice(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"refused":    {Err: boom},
		"reply lost": {Err: boom, Act: fakes.Fully},
		"times out":  {Delay: time.Hour},
		"panics":     {Panic: "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "SetInstanceInfo", Times: 20, Effect: effect})
				w.add("0/lxd/1")
				w.start()
				w.after(25 * time.Second)
				if name == "refused" {
					w.status("0/lxd/1", facade.ContainerProvisioning, "started, but not yet recorded: recording the instance: boom")
				}
				w.after(2 * time.Hour)
				w.provisioned("0/lxd/1")
				if n := w.faults.Count("StartInstance", "0/lxd/1"); n != 1 {
					t.Errorf("StartInstance was called %d times, want once", n)
				}
			})
		})
	}
}

func TestInstanceStartedByAnEarlierWorkerIsRecorded(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetInstanceInfo", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.add("0/lxd/1")
		w.start()
		w.restart()
		w.provisioned("0/lxd/1")
	})
}

func TestInstanceOfDyingContainerIsStillRecorded(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetInstanceInfo", Times: 2, Effect: fakes.Effect{Err: boom}})
		w.add("0/lxd/1")
		w.start()
		w.machine.SetLife("0/lxd/1", facade.Dying)
		w.after(time.Minute)
		if w.machine.InstanceInfo("0/lxd/1").InstanceID == "" {
			t.Error("nobody knows which instance is the dying container's")
		}
		w.machine.SetLife("0/lxd/1", facade.Dead)
		w.after(time.Minute)
		w.removed("0/lxd/1")
	})
}

// Removal wins over creation: the container dies, or vanishes, right before or
// right after each call on the way.
func TestRemovalWinsAtEveryStep(t *testing.T) {
	steps := []string{
		"Containers", "HostChangesForContainer", "ProvisioningInfo", "PrepareContainerInterfaceInfo", "SetContainerStatus",
		"StartInstance", "SetInstanceInfo",
	}
	ends := map[string]func(*world){
		"dies":     func(w *world) { w.machine.SetLife("0/lxd/1", facade.Dead) },
		"vanishes": func(w *world) { w.machine.RemoveContainer("0/lxd/1") },
		"is dying, then dead": func(w *world) {
			w.machine.SetLife("0/lxd/1", facade.Dying)
			time.AfterFunc(time.Minute, func() { w.machine.SetLife("0/lxd/1", facade.Dead) })
		},
	}
	for _, step := range steps {
		for end, happens := range ends {
			for _, moment := range []string{"before", "after"} {
				for skip := range 3 {
					if skip > 0 && step != "Containers" {
						continue
					}
					t.Run(fmt.Sprintf("%s %s %s %d", end, moment, step, skip), func(t *testing.T) {
						story(t, func(w *world) {
							w.config.Preparer = preparer{w.machine}
							effect := fakes.Effect{Before: func() { happens(w) }}
							if moment == "after" {
								effect = fakes.Effect{Then: func() { happens(w) }}
							}
							w.faults.Add(fakes.Rule{Method: step, Skip: skip, Effect: effect})
							w.add("0/lxd/1")
							w.start()
							w.after(time.Hour)
							w.removed("0/lxd/1")
							late := skip == 2 || skip == 1 && moment == "after" // after the last look before the start
							early := !late && slices.Index(steps, step) < slices.Index(steps, "StartInstance")
							if early && w.faults.Count("StartInstance", "0/lxd/1") > 0 {
								t.Error("it was started although it was known to go")
							}
							for _, entry := range []string{"waiting", "failed", "error"} {
								if n := w.total(entry); n > 0 {
									t.Errorf("%d containers are %s", n, entry)
								}
							}
						})
					})
				}
			}
		}
	}
}

// Without an event, too: a watcher may be slow.
func TestRemovalIsSeenRightAfterTheStart(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "StartInstance", Effect: fakes.Effect{Then: func() {
			w.machine.ContainerWatchers("lxd")[0].Silence()
			w.machine.SetLife("0/lxd/1", facade.Dead)
		}}})
		w.add("0/lxd/1")
		w.start()
		w.removed("0/lxd/1")
		if n := w.faults.Count("SetInstanceInfo", "0/lxd/1"); n != 0 {
			t.Error("the instance of a dead container was recorded")
		}
	})
}

// A start that seemed to fail, of a container that is gone by the time its
// instance turns up.
func TestInstanceThatTurnsUpLateIsStopped(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "StartInstance", Effect: fakes.Effect{Err: boom, Then: func() {
			w.machine.SetLife("0/lxd/1", facade.Dead)
		}}})
		w.add("0/lxd/1")
		w.start()
		w.after(time.Minute)
		w.removed("0/lxd/1")
		w.host.AddInstance("0/lxd/1", true)
		w.after(11 * time.Minute)
		w.removed("0/lxd/1")
	})
}

func TestStoppedInstanceIsLeftAloneAndCounted(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		w.host.Halt("0/lxd/1")
		w.after(time.Hour)
		if n := len(w.host.Running()); n != 0 {
			t.Errorf("%d run; nobody asked for that", n)
		}
		if n := w.worker.Report()["instances"].(map[string]any)["not-running"]; n != 1 {
			t.Errorf("%v instances are reported as not running, want 1", n)
		}
	})
}

func TestRecordedInstanceThatVanishedIsNotStartedAgain(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1", "0/lxd/2")
		w.start()
		w.host.Vanish("0/lxd/1")
		w.after(11 * time.Minute)
		w.status("0/lxd/1", facade.ContainerError, `recorded instance "juju-`)
		w.reported("0/lxd/1", "failed", "not found")
		w.provisioned("0/lxd/2")
		if n := w.host.Starts("0/lxd/1"); n != 1 {
			t.Errorf("it was started %d times, want once", n)
		}
		statuses := len(w.machine.Statuses("0/lxd/1"))
		w.after(time.Hour)
		if n := len(w.machine.Statuses("0/lxd/1")); n != statuses {
			t.Errorf("its status was set %d times more", n-statuses)
		}
		// Somebody puts it back.
		w.host.AddInstance("0/lxd/1", true)
		w.after(3 * time.Minute)
		w.status("0/lxd/1", facade.ContainerRunning, "")
	})
}

// What was just started needs no listing to be known to be there.
func TestEventRightAfterAStartTakesNoListing(t *testing.T) {
	story(t, func(w *world) {
		w.start()
		w.after(time.Minute)
		w.add("0/lxd/1")
		w.after(0)
		w.provisioned("0/lxd/1")
		listings := w.faults.Count("AllInstances", "lxd")
		w.machine.ContainerWatchers("lxd")[0].Send([]string{"0/lxd/1"})
		w.after(time.Second)
		if n := w.faults.Count("AllInstances", "lxd"); n != listings {
			t.Errorf("it took %d listings", n-listings)
		}
	})
}

// A listing that lags behind raises no alarm.
func TestListingThatLagsIsNoLoss(t *testing.T) {
	story(t, func(w *world) {
		w.host.SetStale(1, 0)
		w.add("0/lxd/1", "0/lxd/2", "0/lxd/3")
		w.start()
		w.restart()
		w.after(time.Hour)
		w.provisioned("0/lxd/1", "0/lxd/2", "0/lxd/3")
		for _, id := range []string{"0/lxd/1", "0/lxd/2", "0/lxd/3"} {
			for _, s := range w.machine.Statuses(id) {
				if s.State == facade.ContainerError {
					t.Errorf("%s was shown as %s: %s", id, s.State, s.Message)
				}
			}
		}
	})
}

func TestRecordOfAnothersInstanceIsReported(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.machine.AddContainer("0/lxd/2", fakes.Container{InstanceID: string(fakes.InstanceID("0/lxd/1"))})
		w.start()
		w.after(time.Minute)
		w.provisioned("0/lxd/1")
		w.status("0/lxd/2", facade.ContainerError, "made for another container")
		if n := w.host.Starts("0/lxd/2"); n != 0 {
			t.Error("it was started in spite of its record")
		}
	})
}

func TestUnknownLifeIsOneContainersFailure(t *testing.T) {
	story(t, func(w *world) {
		w.machine.AddContainer("0/lxd/1", fakes.Container{Life: "undead"})
		w.add("0/lxd/2")
		w.start()
		w.provisioned("0/lxd/2")
		w.reported("0/lxd/1", "failed", `life "undead"`)
	})
}

// preparer is a Preparer that asks the controller, and does nothing more.
type preparer struct{ machine *fakes.Machine }

func (p preparer) Prepare(ctx context.Context, id string) error {
	_, err := p.machine.HostChangesForContainer(ctx, id)
	return err
}
