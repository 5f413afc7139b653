package containerprovisioner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// failing makes every call of the method about the container fail.
func (w *world) failing(method, id string) {
	w.faults.Add(fakes.Rule{Method: method, Key: id, Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
}

func TestAttemptsAreBoundedAndCountedInTheStatus(t *testing.T) {
	story(t, func(w *world) {
		w.failing("StartInstance", "0/lxd/1")
		w.add("0/lxd/1", "0/lxd/2")
		start := time.Now()
		w.start()
		next := start.Add(time.Second).UTC().Format(time.RFC3339)
		w.status("0/lxd/1", facade.ContainerProvisioning, "starting the instance: boom; 9 of 10 attempts left, next at "+next)
		w.reported("0/lxd/1", "failed", "starting the instance: boom")
		if entry := w.entry("0/lxd/1"); entry["attempts"] != 1 || entry["left"] != 9 || entry["next"] != next {
			t.Errorf("it is reported as %v, want 1 attempt, 9 left, and the next", entry)
		}
		w.after(time.Second)
		w.status("0/lxd/1", facade.ContainerProvisioning, "8 of 10 attempts left")
		w.after(24 * time.Hour)
		w.status("0/lxd/1", facade.ContainerError, "starting the instance: boom; given up after 10 attempts")
		w.reported("0/lxd/1", "error", "starting the instance: boom")
		if n := w.faults.Count("StartInstance", "0/lxd/1"); n != 10 {
			t.Errorf("it was tried %d times, want 10", n)
		}
		want := "[0s 1s 3s 7s 15s 31s 1m3s 2m7s 4m7s 6m7s]"
		if got := fmt.Sprint(w.times("StartInstance", "0/lxd/1")); got != want {
			t.Errorf("it was tried after %s, want %s", got, want)
		}
		if n := len(w.machine.Statuses("0/lxd/1")); n != 11 {
			t.Errorf("its status was set %d times, want once at the start and once for each attempt", n)
		}
		w.provisioned("0/lxd/2")
	})
}

func TestContainerThatIsAskedForAgainIsStarted(t *testing.T) {
	story(t, func(w *world) {
		w.config.MaxAttempts = 2
		w.failing("StartInstance", "0/lxd/1")
		w.add("0/lxd/1")
		w.start()
		w.after(time.Hour)
		w.status("0/lxd/1", facade.ContainerError, "given up after 2 attempts")
		w.machine.AskAgain("0/lxd/1")
		w.after(time.Hour)
		w.status("0/lxd/1", facade.ContainerError, "given up after 2 attempts")
		if n := w.faults.Count("StartInstance", "0/lxd/1"); n != 4 {
			t.Errorf("it was tried %d times, want twice and twice again", n)
		}
		w.faults.Clear()
		w.machine.AskAgain("0/lxd/1")
		w.after(0)
		w.provisioned("0/lxd/1")
	})
}

// Asking cuts the back-off short, and begins a new count.
func TestContainerThatIsAskedForBetweenAttempts(t *testing.T) {
	story(t, func(w *world) {
		w.failing("StartInstance", "0/lxd/1")
		w.add("0/lxd/1")
		w.start()
		w.after(4 * time.Minute)
		w.faults.Reset()
		w.machine.AskAgain("0/lxd/1")
		w.after(0)
		w.status("0/lxd/1", facade.ContainerProvisioning, "9 of 10 attempts left")
	})
}

func TestContainerInErrorIsLeftAloneAfterARestart(t *testing.T) {
	story(t, func(w *world) {
		w.config.MaxAttempts = 3
		w.failing("StartInstance", "0/lxd/1")
		w.add("0/lxd/1")
		w.start()
		w.after(time.Hour)
		w.restart()
		w.after(24 * time.Hour)
		if n := w.faults.Count("StartInstance", "0/lxd/1"); n != 0 {
			t.Errorf("it was tried %d times though nobody asked", n)
		}
		w.status("0/lxd/1", facade.ContainerError, "starting the instance: boom; given up after 3 attempts")
		w.reported("0/lxd/1", "error", "until somebody asks")
		w.machine.AskAgain("0/lxd/1")
		w.after(0)
		w.provisioned("0/lxd/1")
	})
}

// What dies is removed also when it had been given up, or waits for its next
// attempt.
func TestContainerInTroubleIsRemoved(t *testing.T) {
	for _, wait := range []time.Duration{0, 5 * time.Minute, time.Hour} {
		t.Run(wait.String(), func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
				w.add("0/lxd/1")
				w.start()
				w.after(wait)
				w.machine.SetLife("0/lxd/1", facade.Dead)
				w.after(0)
				w.removed("0/lxd/1")
			})
		})
	}
}

func TestEverythingThatKeepsAContainerFromStartingCounts(t *testing.T) {
	nonsense := map[string]func(*world){
		"preparing the host: boom":               func(w *world) { w.failing("HostChangesForContainer", "0/lxd/1") },
		"reading provisioning info: boom":        func(w *world) { w.failing("ProvisioningInfo", "0/lxd/1") },
		"preparing network interfaces: boom":     func(w *world) { w.failing("PrepareContainerInterfaceInfo", "0/lxd/1") },
		"starting the instance: boom":            func(w *world) { w.failing("StartInstance", "0/lxd/1") },
		"reading the container: boom":            func(w *world) { w.rereadFails() },
		"Info: container provisioning info with": func(w *world) { w.machine.SetContainerInfo("0/lxd/1", facade.ContainerProvisioningInfo{}) },
		`Interfaces[0]: Name: interface name ""`: func(w *world) {
			w.machine.AddContainer("0/lxd/1", fakes.Container{Interfaces: []facade.NetworkInterface{{}}})
		},
		"starting the instance: empty InstanceID": func(w *world) {
			w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Answer: fakes.Return(nil)}})
		},
		"starting the instance: no answer within 30m0s": func(w *world) {
			w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{Delay: time.Hour}})
		},
		"panic: boom": func(w *world) {
			w.faults.Add(fakes.Rule{Method: "PrepareContainerInterfaceInfo", Times: fakes.Always, Effect: fakes.Effect{Panic: "boom"}})
		},
	}
	for reason, happens := range nonsense {
		t.Run(reason, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Preparer = preparer{w.machine}
				w.config.MaxAttempts = 3
				w.add("0/lxd/1")
				happens(w)
				w.start()
				w.after(24 * time.Hour)
				w.status("0/lxd/1", facade.ContainerError, reason)
				w.status("0/lxd/1", facade.ContainerError, "given up after 3 attempts")
				w.faults.Clear()
				w.add("0/lxd/2")
				w.after(0)
				if w.machine.InstanceInfo("0/lxd/2").InstanceID == "" {
					t.Error("another is not started any more")
				}
			})
		})
	}
}

// rereadFails makes every second look at the container fail: that right before
// the start.
func (w *world) rereadFails() {
	w.faults.OnCall(func(c fakes.Call) fakes.Effect {
		if c.Method == "Containers" && c.Item && c.N%2 == 0 {
			return fakes.Effect{Err: boom}
		}
		return fakes.Effect{}
	})
}

// A controller that is away for an hour is no reason to give up on anybody.
func TestControllerThatDoesNotAnswerDoesNotCount(t *testing.T) {
	for _, method := range []string{"Containers", "ProvisioningInfo", "PrepareContainerInterfaceInfo", "SetInstanceInfo", "SetContainerStatus"} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.MaxAttempts = 1
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Delay: 24 * time.Hour}})
				w.add("0/lxd/1", "0/lxd/2")
				w.start()
				w.after(time.Hour)
				w.faults.Clear()
				w.after(5 * time.Minute)
				w.provisioned("0/lxd/1", "0/lxd/2")
			})
		})
	}
}

func TestVanishingBetweenTwoReadsIsNoAttempt(t *testing.T) {
	story(t, func(w *world) {
		w.config.MaxAttempts = 1
		w.faults.Add(fakes.Rule{Method: "ProvisioningInfo", Key: "0/lxd/1", Times: 2, Effect: fakes.Effect{Err: errors.NotFoundf("container")}})
		w.add("0/lxd/1")
		w.start()
		w.provisioned("0/lxd/1")
		// Unless it is there, and goes on so.
		w.faults.Add(fakes.Rule{Method: "ProvisioningInfo", Key: "0/lxd/2", Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotFoundf("image")}})
		w.add("0/lxd/2")
		w.after(time.Hour)
		w.status("0/lxd/2", facade.ContainerError, "reading provisioning info: image not found; given up after 1 attempt")
		if n := w.faults.Count("ProvisioningInfo", "0/lxd/2"); n != 3 {
			t.Errorf("it was asked for %d times, want 3", n)
		}
	})
}

// Events, of which many are echoes, do not have an attempt come before its time.
func TestEventsDoNotCutTheBackOffShort(t *testing.T) {
	story(t, func(w *world) {
		w.failing("StartInstance", "0/lxd/1")
		w.failing("StopInstances", string(fakes.InstanceID("0/lxd/2")))
		w.faults.Add(fakes.Rule{Method: "SetInstanceInfo", Key: "0/lxd/3", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.machine.AddContainer("0/lxd/2", fakes.Container{Life: facade.Dead})
		w.host.AddInstance("0/lxd/2", true)
		w.add("0/lxd/1", "0/lxd/3")
		w.start()
		for range 600 {
			w.machine.ContainerWatchers("lxd")[0].Send([]string{"0/lxd/1", "0/lxd/2", "0/lxd/3"})
			w.after(100 * time.Millisecond)
		}
		for method, key := range map[string]string{
			"StartInstance": "0/lxd/1", "StopInstances": string(fakes.InstanceID("0/lxd/2")), "SetInstanceInfo": "0/lxd/3",
		} {
			if n := len(w.times(method, key)); n != 6 {
				t.Errorf("%s about %s was called %d times in a minute, want 6", method, key, n)
			}
		}
	})
}

func TestStatusIsSetOnlyOnChange(t *testing.T) {
	story(t, func(w *world) {
		w.add("0/lxd/1")
		w.start()
		w.after(24 * time.Hour)
		var got []string
		for _, s := range w.machine.Statuses("0/lxd/1") {
			got = append(got, string(s.State)+" "+s.Message)
		}
		if want := "provisioning starting, running "; strings.Join(got, ", ") != want {
			t.Errorf("the statuses were %q, want %q", got, want)
		}
		w.restart()
		if n := w.faults.Count("SetContainerStatus", ""); n != 0 {
			t.Errorf("a restart set the status %d times", n)
		}
	})
}

// A failure to set a status fails nothing, and it is set a little later.
func TestStatusThatCannotBeSet(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"refused":    {Err: boom},
		"reply lost": {Err: boom, Act: fakes.Fully},
		"times out":  {Delay: time.Hour},
		"panics":     {Panic: "boom"},
		"no answer":  {Answer: fakes.Return([]error{})},
		"not found":  {Err: errors.NotFoundf("container")},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.MaxAttempts = 1
				w.failing("StartInstance", "0/lxd/2")
				w.faults.Add(fakes.Rule{Method: "SetContainerStatus", Times: 8, Effect: effect})
				w.add("0/lxd/1", "0/lxd/2")
				w.start()
				w.after(8 * time.Minute)
				if name == "not found" {
					w.after(20 * time.Minute)
				}
				w.provisioned("0/lxd/1")
				w.status("0/lxd/2", facade.ContainerError, "starting the instance: boom; given up after 1 attempt")
				if n := w.faults.Count("StartInstance", "0/lxd/2"); n != 1 {
					t.Errorf("it was tried %d times, want once", n)
				}
			})
		})
	}
}

func TestStatusOfAnEarlierWorkerIsPutRight(t *testing.T) {
	for _, state := range []facade.ContainerState{facade.ContainerPending, facade.ContainerProvisioning, facade.ContainerError} {
		t.Run(string(state), func(t *testing.T) {
			story(t, func(w *world) {
				w.machine.AddContainer("0/lxd/1", fakes.Container{InstanceID: string(fakes.InstanceID("0/lxd/1")), State: state})
				w.host.AddInstance("0/lxd/1", true)
				w.start()
				w.status("0/lxd/1", facade.ContainerRunning, "")
			})
		})
	}
}

func TestStatusIsOneLineOfBoundedLength(t *testing.T) {
	story(t, func(w *world) {
		w.config.MaxAttempts = 1
		w.faults.Add(fakes.Rule{Method: "StartInstance", Times: fakes.Always, Effect: fakes.Effect{
			Err: errors.New("first\nsecond\n\n" + strings.Repeat("long ", 10000)),
		}})
		w.add("0/lxd/1")
		w.start()
		w.status("0/lxd/1", facade.ContainerError, "starting the instance: first second long")
		if got := w.machine.Status("0/lxd/1").Message; strings.Contains(got, "\n") || len(got) > 600 {
			t.Errorf("the message has %d bytes, or several lines", len(got))
		}
	})
}
