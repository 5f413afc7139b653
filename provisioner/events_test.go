package provisioner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// O5: an operator deleted by hand comes back: at once with a watcher, within a
// resync without.
func TestOperatorThatVanishesIsRebuilt(t *testing.T) {
	for features, within := range map[fakes.Features]time.Duration{
		fakes.Watching:                   0,
		fakes.Watching | fakes.Staging:   0,
		fakes.Staging:                    provisioner.DefaultResyncInterval,
		fakes.Listing:                    provisioner.DefaultResyncInterval,
		fakes.Watching | fakes.Listing:   0,
		fakes.Features(0) /* nothing */ : provisioner.DefaultResyncInterval,
	} {
		for about, remove := range map[string]func(w *world){
			"all of it":           func(w *world) { w.manager.Vanish("mysql") },
			"but for its config":  func(w *world) { w.manager.VanishOperator("mysql") },
			"but for what it ran": func(w *world) { w.manager.VanishConfig("mysql") },
		} {
			t.Run(fmt.Sprint(about, " ", features), func(t *testing.T) {
				story(t, func(w *world) {
					w.config.OperatorManager = w.manager.With(features)
					w.controller.AddApplication("mysql", fakes.App{})
					w.start()
					w.after(time.Minute)
					remove(w)
					if within == 0 {
						synctest.Wait()
					} else {
						w.after(within + time.Second)
					}
					w.provisioned("mysql")
				})
			})
		}
	}
}

// O17: what no event tells of is seen at the next resync.
func TestLostEventIsMadeUpForByTheResync(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		for _, method := range []string{"WatchApplications", "WatchProvisioning"} {
			w.controller.Watchers(method)[0].Silence()
		}
		info := fakes.Info()
		info.Version = "2.9.99"
		w.controller.SetInfo("mysql", info)
		w.after(provisioner.DefaultResyncInterval + time.Second)
		if got := w.conf("mysql").UpgradedToVersion; got != "2.9.99" {
			t.Errorf("the version is %q", got)
		}
		w.controller.RemoveApplication("mysql")
		w.after(provisioner.DefaultResyncInterval + time.Minute)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
	})
}

func TestResyncKeepsItsInterval(t *testing.T) {
	story(t, func(w *world) {
		w.config.ResyncInterval = time.Hour
		w.config.Facade = w.controller.Plain()                   // one baseline
		w.config.OperatorManager = w.manager.With(fakes.Listing) // no echo of our own writes
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(5*time.Hour + time.Minute)
		if n := len(w.passes.of("mysql")); n != 6 {
			t.Errorf("%d passes in five hours, want one and five", n)
		}
	})
}

func TestRepeatedEventsAreOnePass(t *testing.T) {
	story(t, func(w *world) {
		w.config.Facade = w.controller.Plain()
		w.config.OperatorManager = w.manager.Plain()
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		before := len(w.passes.of("mysql"))
		w.controller.Watchers("WatchApplications")[0].Send([]string{"mysql", "mysql", "mysql"})
		w.controller.Watchers("WatchApplications")[0].Send([]string{"mysql"})
		synctest.Wait()
		if n := len(w.passes.of("mysql")) - before; n > 2 {
			t.Errorf("%d passes for one burst of events", n)
		}
	})
}

func TestEventDuringAPassIsNotLost(t *testing.T) {
	for _, method := range methods {
		story(t, func(w *world) {
			w.config.Facade = w.controller.With(featuresFor(method) &^ fakes.StatusReports)
			info := fakes.Info()
			info.Version = "2.9.99"
			w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Then: func() { w.controller.SetInfo("mysql", info) }}})
			w.config.ResyncInterval = 1000 * time.Hour
			w.controller.AddApplication("mysql", fakes.App{})
			w.start()
			w.after(time.Minute)
			if method == "DeleteOperator" || method == "SetProvisioningStatus" {
				return
			}
			if method == "GlanceOperator" || method == "KeepOperator" {
				w.look("mysql") // settled now, if it was not
				if w.faults.Count(method, "mysql") == 0 {
					w.look("mysql")
				}
			}
			// Without a watcher of provisioning, only what is read later
			// in the same pass can know.
			w.controller.Watchers("WatchApplications")[0].Send([]string{"mysql"})
			synctest.Wait()
			if got := w.conf("mysql").UpgradedToVersion; got != "2.9.99" {
				t.Errorf("changed during %s: the version is %q", method, got)
			}
		})
	}
}

// O11, O13: what just changed goes before what is old or failing.
func TestFreshEventGoesBeforeTheBaseline(t *testing.T) {
	story(t, func(w *world) {
		w.config.Concurrency = 1
		w.config.OperatorManager = w.manager.Plain()
		w.faults.SetLatency(10 * time.Millisecond)
		for i := range 50 {
			w.controller.AddApplication(fmt.Sprintf("old%d", i), fakes.App{})
		}
		w.start()
		w.after(100 * time.Millisecond)
		for i := range 3 {
			w.controller.AddApplication(fmt.Sprintf("new%d", i), fakes.App{})
		}
		w.after(500 * time.Millisecond) // of more than four seconds
		w.provisioned("new0", "new1", "new2")
		if n := len(w.manager.Apps()); n > 15 {
			t.Errorf("%d operators are there already", n)
		}
		w.after(time.Minute)
		if n := len(w.manager.Apps()); n != 53 {
			t.Errorf("%d operators, want 53", n)
		}
	})
}

func TestEventCutsABackoffShort(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(10 * time.Minute)
		w.faults.Clear()
		if err := w.worker.Trigger("mysql"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.provisioned("mysql")
	})
}

// The echo of a pass's own writes must not have it tried without a pause.
func TestEchoOfOwnWritesDoesNotCutABackoffShort(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{
			Err:  boom,
			Then: func() { w.manager.Watchers()[0].Send([]string{"mysql"}) },
		}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(time.Minute)
		if n := len(w.passes.of("mysql")); n > 7 {
			t.Errorf("%d passes in a minute", n)
		}
	})
}

func TestWorkerLeavesAloneWhatItDoesNotOwn(t *testing.T) {
	story(t, func(w *world) {
		w.config.Owns = func(app string) bool { return strings.HasPrefix(app, "mine") }
		w.controller.AddApplication("mine", fakes.App{})
		w.controller.AddApplication("theirs", fakes.App{})
		w.start()
		w.after(time.Hour)
		w.provisioned("mine")
		for _, c := range w.faults.Calls() {
			if c.Key == "theirs" {
				t.Errorf("called %v", c)
			}
		}
	})
}

func TestDryRunDoesNothingAndSaysWhatItWould(t *testing.T) {
	acts := []string{"StageOperator", "EnsureOperator", "KeepOperator", "DeleteOperator", "SetPasswords", "IssueOperatorCertificate", "SetProvisioningStatus"}
	tests := []struct {
		would   string
		arrange func(w *world)
	}{
		{"create the operator", func(w *world) { w.manager.Vanish("mysql") }},
		{"create the operator", func(w *world) { w.manager.VanishOperator("mysql") }},
		{"delete the operator", func(w *world) { w.controller.RemoveApplication("mysql") }},
		{"renew the operator's certificate", func(w *world) { w.after(300 * day) }},
		{"give the operator a new password", func(w *world) { w.corrupt("mysql", func(string) string { return "nothing" }) }},
		{"update the operator", func(w *world) {
			info := fakes.Info()
			info.Version = "3.0.0"
			w.controller.SetInfo("mysql", info)
		}},
		{"update the operator", func(w *world) {
			info := fakes.Info()
			info.ImageDetails.RegistryPath = "elsewhere"
			w.controller.SetInfo("mysql", info)
		}},
		{"", func(*world) {}},
	}
	for _, test := range tests {
		t.Run(test.would, func(t *testing.T) {
			story(t, func(w *world) {
				w.controller.AddApplication("mysql", fakes.App{})
				w.start()
				w.stop()
				test.arrange(w)
				w.faults.Reset()
				w.config.DryRun = true
				w.start()
				w.after(time.Hour)
				for _, method := range acts {
					if w.faults.Count(method, "mysql") != 0 {
						t.Errorf("%s was called", method)
					}
				}
				would, _ := w.worker.Report()["dry-run"].(map[string]any)
				if got := would["mysql"]; test.would != "" && got != test.would || test.would == "" && got != nil {
					t.Errorf("reported that it would %v, want %q", got, test.would)
				}
				if test.would != "" && len(w.log.Lines("would "+test.would)) == 0 {
					t.Error("nothing was logged")
				}
			})
		})
	}
}

// O15: waiting on purpose, waiting for a worker and working are told apart.
func TestMetricsTellDelayWaitAndWorkApart(t *testing.T) {
	story(t, func(w *world) {
		w.config.Concurrency = 1
		w.config.Facade = w.controller.Plain()
		w.config.OperatorManager = w.manager.Plain()
		w.faults.Add(fakes.Rule{Method: "Life", Times: fakes.Always, Effect: fakes.Effect{Delay: time.Second}})
		w.faults.Add(fakes.Rule{Method: "CharmInfo", Key: "a", Effect: fakes.Effect{Err: boom}})
		w.controller.AddApplication("a", fakes.App{})
		w.controller.AddApplication("b", fakes.App{})
		w.start()
		w.after(time.Minute)
		show := func(app string) string {
			var out []string
			for _, p := range w.passes.of(app) {
				out = append(out, fmt.Sprintf("%s delay %v wait %v run %v", p.Outcome, p.Delay, p.QueueWait, p.Duration))
			}
			return strings.Join(out, "; ")
		}
		if got, want := show("a"), "failed delay 0s wait 0s run 1s; settled delay 1s wait 0s run 1s"; got != want {
			t.Errorf("a: %s\nwant %s", got, want)
		}
		if got, want := show("b"), "settled delay 0s wait 1s run 1s"; got != want {
			t.Errorf("b: %s\nwant %s", got, want)
		}
	})
}

// O14: more work than can be done in a resync interval is said.
func TestSaturationIsReported(t *testing.T) {
	story(t, func(w *world) {
		w.config.Concurrency = 1
		w.config.Facade = w.controller.Plain()
		w.config.ResyncInterval = time.Minute
		w.faults.SetLatency(time.Second)
		for i := range 40 {
			w.controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
		}
		w.start()
		w.after(15 * time.Minute)
		if got := fmt.Sprint(w.worker.Report()["resync"]); !strings.Contains(got, "saturated:true") {
			t.Errorf("resync is reported as %s", got)
		}
		if n := len(w.log.Lines("Concurrency is too low")); n != 1 {
			t.Errorf("warned %d times, want once", n)
		}
		w.faults.SetLatency(time.Millisecond)
		w.after(5 * time.Minute)
		if got := fmt.Sprint(w.worker.Report()["resync"]); !strings.Contains(got, "saturated:false") {
			t.Errorf("resync is reported as %s", got)
		}
	})
}

func TestReportListsTheWorstFirstAndABoundedNumber(t *testing.T) {
	story(t, func(w *world) {
		for i := range 103 {
			app := fmt.Sprintf("failing%d", i)
			w.controller.AddApplication(app, fakes.App{})
			w.faults.Add(fakes.Rule{Method: "EnsureOperator", Key: app, Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		}
		w.controller.AddApplication("nocharm", fakes.App{})
		w.controller.RemoveCharm("nocharm")
		w.controller.AddApplication("tape", fakes.App{Info: storage("tape")})
		w.start()
		w.after(10 * time.Second)
		report := w.worker.Report()
		list := report["applications"].([]any)
		if len(list) != 100 || report["omitted"] != 5 {
			t.Errorf("%d applications and %v omitted, want 100 and 5", len(list), report["omitted"])
		}
		first := list[0].(map[string]any)
		if first["name"] != "tape" || first["state"] != "failed" || first["attempts"] == nil || first["next"] == nil || first["since"] == nil {
			t.Errorf("the first is %v, want the one that no repetition mends", first)
		}
		if got := w.total("failed") + w.total("waiting"); got != 105 {
			t.Errorf("%d in all, want 105", got)
		}
	})
}

func TestReportAnswersAfterTheEnd(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		worker := w.worker
		w.stop()
		if worker.Report()["totals"] == nil {
			t.Error("no totals")
		}
	})
}

// What a stale cache shows is made good by the next look.
func TestStaleReadsDoNoHarm(t *testing.T) {
	story(t, func(w *world) {
		w.manager.SetStale(3, time.Second)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(time.Minute)
		w.manager.SetStale(0, 0) // for the test's own eyes
		w.provisioned("mysql")
		w.manager.SetStale(3, time.Second)
		w.controller.RemoveApplication("mysql")
		w.after(time.Minute)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
	})
}

// The operator's other inputs follow their sources, too.
func TestImageTagsAndStorageReachTheManager(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		info := storage("kubernetes")
		info.ImageDetails.RegistryPath = "elsewhere:1"
		info.BaseImageDetails.RegistryPath = "elsewhere:2"
		info.Tags = map[string]string{"k": "v"}
		w.controller.SetInfo("mysql", info)
		synctest.Wait()
		got := w.manager.Config("mysql")
		if got.ImageDetails.RegistryPath != "elsewhere:1" || got.BaseImageDetails.RegistryPath != "elsewhere:2" ||
			got.ResourceTags["k"] != "v" || got.CharmStorage == nil || got.Version != info.Version {
			t.Errorf("stored is %+v", got)
		}
	})
}

// lateInputs is a controller whose watcher of provisioning tells nothing yet.
type lateInputs struct {
	*fakes.Controller
	watcher *fakes.Watcher[[]string]
}

func (l lateInputs) WatchProvisioning(context.Context) (facade.StringsWatcher, error) {
	return l.watcher, nil
}

// A baseline may hold what has changed since the pass that another watcher's
// baseline caused. The application waits for its certificate then, for months.
func TestLateBaselineIsLookedAtAlthoughTheApplicationIsSettled(t *testing.T) {
	story(t, func(w *world) {
		late := lateInputs{w.controller, fakes.NewWatcher(func(_, next []string) []string { return next })}
		w.config.Facade = late
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(time.Minute)
		info := fakes.Info()
		info.Version = "2.9.99"
		w.controller.SetInfo("mysql", info)
		late.watcher.Send([]string{"mysql"})
		w.after(time.Second)
		if got := w.conf("mysql").UpgradedToVersion; got != "2.9.99" {
			t.Errorf("the version is %q, want what the baseline told of", got)
		}
	})
}
