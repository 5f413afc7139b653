package containerprovisioner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

var modes = []facade.HarvestMode{facade.HarvestNone, facade.HarvestUnknown, facade.HarvestDestroyed, facade.HarvestAll}

func TestHarvestModeSaysWhatIsStopped(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			story(t, func(w *world) {
				w.config.HarvestMode = mode
				w.host.AddInstance("0/lxd/7", true) // unknown
				w.add("0/lxd/1", "0/lxd/2")
				w.start()
				w.machine.SetLife("0/lxd/1", facade.Dead)
				w.after(time.Second)
				var want []string
				if !mode.Dead() && !mode.Unknown() {
					want = append(want, "0/lxd/1")
				}
				want = append(want, "0/lxd/2")
				if !mode.Unknown() {
					want = append(want, "0/lxd/7")
				}
				if got := w.host.Running(); !slices.Equal(got, want) {
					t.Errorf("%q run, want %q", got, want)
				}
				if life := w.machine.Life("0/lxd/1"); life != "" {
					t.Errorf("the dead container was not marked for removal: it is %s", life)
				}
				kept := mode == facade.HarvestNone
				if got := slices.Contains(w.machine.Addresses(), "0/lxd/1"); got != kept {
					t.Errorf("the dead container has addresses: %v, want %v", got, kept)
				}
				unknown := strings.Join(slices.DeleteFunc(want, func(id string) bool { return id == "0/lxd/2" }), " ")
				if got := w.unknown(); got != unknown {
					t.Errorf("%q are reported as unknown, want %q", got, unknown)
				}
				w.after(time.Hour)
				if got := w.unknown(); got != unknown {
					t.Errorf("later, %q are reported as unknown, want %q", got, unknown)
				}
				for _, id := range strings.Fields(unknown) {
					if n := len(w.log.Lines("instance is left", "container="+id)); n != 1 {
						t.Errorf("that the instance of %s is left was logged %d times, want once:\n%s", id, n, w.log.Text())
					}
				}
			})
		})
	}
}

func TestDeadContainerWithoutAnInstanceIsReleasedInEveryMode(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			story(t, func(w *world) {
				w.config.HarvestMode = mode
				w.add("0/lxd/1")
				w.failing("StartInstance", "0/lxd/1")
				w.start()
				w.machine.SetLife("0/lxd/1", facade.Dead)
				w.after(time.Second)
				w.removed("0/lxd/1")
			})
		})
	}
}

func TestHarvestModeOfTheFacadeWinsAndIsFollowed(t *testing.T) {
	story(t, func(w *world) {
		w.config.Facade = w.machine
		w.config.HarvestMode = facade.HarvestAll
		w.machine.SetHarvestMode(facade.HarvestNone)
		w.host.AddInstance("0/lxd/7", true)
		w.add("0/lxd/1")
		w.start()
		if got := w.worker.Report()["harvest-mode"]; got != "none" {
			t.Errorf("the mode is reported as %v, want none", got)
		}
		w.after(time.Hour)
		if got := strings.Join(w.host.Running(), " "); got != "0/lxd/1 0/lxd/7" {
			t.Errorf("%s run, want both", got)
		}
		w.machine.SetHarvestMode(facade.HarvestUnknown)
		w.after(0)
		if got := strings.Join(w.host.Running(), " "); got != "0/lxd/1" {
			t.Errorf("%s run, want the one that is known", got)
		}
	})
}

// Until the mode is known nothing is taken away, and everything else goes on.
func TestHarvestModeThatIsNotKnown(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"refused":  {Err: boom},
		"nonsense": {Answer: fakes.Return(facade.HarvestMode("everything"))},
		"hangs":    {Delay: time.Hour},
		"panics":   {Panic: "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.machine
				w.machine.SetHarvestMode(facade.HarvestAll)
				w.faults.Add(fakes.Rule{Method: "HarvestMode", Times: fakes.Always, Effect: effect})
				w.host.AddInstance("0/lxd/7", true)
				w.machine.AddContainer("0/lxd/6", fakes.Container{Life: facade.Dead})
				w.host.AddInstance("0/lxd/6", true)
				w.add("0/lxd/1")
				w.start()
				w.after(time.Minute)
				w.provisioned("0/lxd/1")
				if got := strings.Join(w.host.Running(), " "); got != "0/lxd/1 0/lxd/6 0/lxd/7" {
					t.Errorf("%s run, want all", got)
				}
				w.reported("0/lxd/6", "waiting", "harvest mode")
				if got, _ := w.worker.Report()["harvest-error"].(string); got == "" {
					t.Error("the report does not say why it is not known")
				}
				if n := len(w.log.Lines("harvest mode not known")); n != 1 {
					t.Errorf("that was logged %d times, want once", n)
				}
				w.faults.Clear()
				w.after(5 * time.Minute)
				w.removed("0/lxd/6", "0/lxd/7")
			})
		})
	}
}

// One that was known stays in force while its successor is not.
func TestHarvestModeThatCannotBeReadAgain(t *testing.T) {
	story(t, func(w *world) {
		w.config.Facade = w.machine
		w.add("0/lxd/1")
		w.start()
		w.faults.Add(fakes.Rule{Method: "HarvestMode", Times: 3, Effect: fakes.Effect{Err: boom}})
		w.machine.SetHarvestMode(facade.HarvestNone)
		w.after(time.Second)
		if got := w.worker.Report()["harvest-mode"]; got != "destroyed" {
			t.Errorf("the mode is reported as %v, want the old one", got)
		}
		w.after(time.Minute)
		if got := w.worker.Report()["harvest-mode"]; got != "none" {
			t.Errorf("the mode is reported as %v, want the new one", got)
		}
	})
}

func TestHarvestModeThatIsNotSupportedIsDoneWithout(t *testing.T) {
	for _, method := range []string{"WatchHarvestMode", "HarvestMode"} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.machine
				w.config.HarvestMode = facade.HarvestUnknown
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotSupportedf(method)}})
				w.start()
				if got := w.worker.Report()["harvest-mode"]; got != "unknown" {
					t.Errorf("the mode is reported as %v, want the configured one", got)
				}
			})
		})
	}
}

// Nothing is taken for unknown before it was told what is known, nor on an
// error.
func TestUnknownIsOnlyWhatTheControllerSaysItDoesNotKnow(t *testing.T) {
	t.Run("before the baseline", func(t *testing.T) {
		story(t, func(w *world) {
			silent := fakes.NewWatcher(func(_, next []string) []string { return next })
			w.config.Facade = watching{w.machine.Plain(), silent}
			w.config.HarvestMode = facade.HarvestAll
			w.host.AddInstance("0/lxd/7", true)
			w.start()
			w.after(24 * time.Hour)
			if n := w.faults.Count("StopInstances", ""); n != 0 {
				t.Errorf("instances were stopped %d times before the baseline", n)
			}
			silent.Send(nil)
			w.after(time.Second)
			w.removed("0/lxd/7")
		})
	})
	for name, effect := range map[string]fakes.Effect{
		"an error":          {Err: boom},
		"a time-out":        {Delay: 24 * time.Hour},
		"no answer":         {Answer: fakes.Return([]facade.ContainerResult{})},
		"nil":               {Answer: fakes.Return(nil)},
		"another's answer":  {Answer: fakes.Return([]facade.ContainerResult{{ID: "0/lxd/8", Err: errors.NotFoundf("container")}})},
		"an error for one":  {Answer: fakes.Return([]facade.ContainerResult{{ID: "0/lxd/7", Err: boom}})},
		"an unknown life":   {Answer: fakes.Return([]facade.ContainerResult{{ID: "0/lxd/7", Life: "lost"}})},
		"no life":           {Answer: fakes.Return([]facade.ContainerResult{{ID: "0/lxd/7"}})},
		"an anonymous one":  {Answer: fakes.Return([]facade.ContainerResult{{Err: errors.NotFoundf("container")}})},
		"not logged in":     {Err: errors.Unauthorizedf("login")},
		"of the whole call": {Err: errors.NotFoundf("machine")},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.HarvestMode = facade.HarvestAll
				w.host.AddInstance("0/lxd/7", true)
				w.faults.Add(fakes.Rule{Method: "Containers", Times: fakes.Always, Effect: effect})
				w.start()
				w.after(time.Hour)
				if n := w.faults.Count("StopInstances", ""); n != 0 {
					t.Errorf("instances were stopped %d times", n)
				}
			})
		})
	}
}

// watching is a facade whose watcher is the test's.
type watching struct {
	facade.Machine
	watcher facade.StringsWatcher
}

func (f watching) WatchContainers(context.Context, string, facade.ContainerType) (facade.StringsWatcher, error) {
	return f.watcher, nil
}

// listed is a broker that lists more than there is, and notes what it is to
// stop.
type listed struct {
	container.Broker
	more    []container.Instance
	stopped *[]container.InstanceID
}

func (b listed) AllInstances(ctx context.Context) ([]container.Instance, error) {
	all, err := b.Broker.AllInstances(ctx)
	return append(slices.Clone(b.more), all...), err
}

func (b listed) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	*b.stopped = append(*b.stopped, ids...)
	return b.Broker.StopInstances(ctx, ids...)
}

// A second instance of a living container is one that the controller does not
// know.
func TestSurplusInstances(t *testing.T) {
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			story(t, func(w *world) {
				w.config.HarvestMode = mode
				w.add("0/lxd/1")
				w.start()
				w.stop()
				var stopped []container.InstanceID
				w.config.Broker = listed{w.config.Broker, []container.Instance{{ID: "twin", ContainerID: "0/lxd/1"}}, &stopped}
				w.start()
				w.provisioned("0/lxd/1")
				want := []container.InstanceID(nil)
				if mode.Unknown() {
					want = []container.InstanceID{"twin"}
				} else if got := w.unknown(); got != "0/lxd/1" {
					t.Errorf("%q are reported as unknown, want 0/lxd/1", got)
				}
				if !slices.Equal(stopped, want) {
					t.Errorf("%q were stopped, want %q", stopped, want)
				}
			})
		})
	}
}

func TestStrangeInstancesAreLeftAloneAndReported(t *testing.T) {
	story(t, func(w *world) {
		w.config.HarvestMode = facade.HarvestAll
		var stopped []container.InstanceID
		w.config.Broker = listed{w.config.Broker, []container.Instance{
			{ID: "a", ContainerID: "1/lxd/1"}, {ID: "b", ContainerID: "0/kvm/1"}, {ID: "c", ContainerID: "0/lxd/1/lxd/0"},
			{ID: "d"}, {ID: "", ContainerID: "0/lxd/5"}, {ID: "e", ContainerID: strings.Repeat("x", 1<<20)},
		}, &stopped}
		w.start()
		w.after(time.Hour)
		if len(stopped) > 0 {
			t.Errorf("%q were stopped", stopped)
		}
		if list, _ := w.worker.Report()["strange-instances"].([]any); len(list) != 6 {
			t.Errorf("%v are reported as strange, want 6", list)
		}
		if n := len(w.log.Lines("leaving alone an instance")); n != 6 {
			t.Errorf("%d were logged, want each once", n)
		}
	})
}
