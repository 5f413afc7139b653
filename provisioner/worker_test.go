package provisioner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestLivingApplicationGetsAnOperator(t *testing.T) {
	story(t, func(w *world) {
		w.config.Facade = w.controller.Plain()
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.provisioned("mysql")
		want := "Life CharmInfo OperatorExists Operator OperatorProvisioningInfo " +
			"IssueOperatorCertificate StageOperator SetPasswords EnsureOperator"
		if got := w.order("mysql"); !strings.HasPrefix(got, want) {
			t.Errorf("calls were %s\nwant            %s", got, want)
		}
		conf := w.conf("mysql")
		if conf.Tag != "application-mysql" || conf.DataDir != w.agent.DataDir() || conf.LogDir != w.agent.LogDir() ||
			conf.ControllerUUID != fakes.ControllerUUID || conf.ModelUUID != fakes.ModelUUID ||
			conf.CACert != w.controller.CACert() || conf.UpgradedToVersion != fakes.Info().Version {
			t.Errorf("agent.conf says %+v", conf)
		}
		if !conf.APIPassword.IsZero() || len(conf.OldPassword.Reveal()) < 24 {
			t.Error("the first password is not the old one, of 24 characters or more")
		}
		if got := w.total("settled"); got != 1 {
			t.Errorf("%d settled, want 1", got)
		}
	})
}

func TestApplicationThatComesLaterGetsAnOperatorToo(t *testing.T) {
	story(t, func(w *world) {
		w.start() // an empty baseline is a baseline
		w.controller.AddApplication("mysql", fakes.App{})
		synctest.Wait()
		w.provisioned("mysql")
	})
}

func TestOptionalInterfacesAreOptional(t *testing.T) {
	for features := range fakes.Features(128) {
		story(t, func(w *world) {
			w.config.Facade = w.controller.With(features)
			w.config.OperatorManager = w.manager.With(features)
			w.controller.AddApplication("mysql", fakes.App{})
			w.controller.AddApplication("sidecar", fakes.App{Charm: fakes.Charm(2)})
			w.start()
			w.provisioned("mysql")
			w.controller.RemoveApplication("mysql")
			w.after(time.Minute)
			if apps := w.manager.Apps(); len(apps) != 0 {
				t.Errorf("features %b: operators of %v are left", features, apps)
			}
		})
	}
}

func TestOptionalWatcherThatIsNotSupportedIsDoneWithout(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Fail("WatchProvisioning", "", errors.NotSupportedf("watching"))
		w.faults.Fail("WatchOperators", "", errors.NotSupportedf("watching"))
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.provisioned("mysql")
		watchers := fmt.Sprint(w.worker.Report()["watchers"])
		if strings.Count(watchers, "missing:not supported") != 2 {
			t.Errorf("watchers are reported as %v", watchers)
		}
	})
}

func TestApplicationOfFormat2IsNeverTouched(t *testing.T) {
	for _, life := range []facade.Life{facade.Alive, facade.Dying, facade.Dead} {
		story(t, func(w *world) {
			w.controller.AddApplication("sidecar", fakes.App{Charm: fakes.Charm(2), Life: life})
			w.start()
			w.after(time.Hour)
			for _, method := range []string{"OperatorExists", "Operator", "EnsureOperator", "DeleteOperator", "SetPasswords"} {
				if n := w.faults.Count(method, "sidecar"); n != 0 {
					t.Errorf("%s: %s was called %d times", life, method, n)
				}
			}
		})
	}
}

func TestDyingApplicationKeepsItsOperatorAndDeadOneLosesIt(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.controller.SetLife("mysql", facade.Dying)
		w.after(time.Hour)
		w.provisioned("mysql")
		w.controller.SetLife("mysql", facade.Dead)
		w.after(time.Minute)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
		w.controller.RemoveApplication("mysql")
		w.after(time.Minute)
		if got := w.worker.Report()["applications"]; got != nil {
			t.Errorf("still tracked: %v", got)
		}
	})
}

func TestDyingApplicationGetsNoNewOperator(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{Life: facade.Dying})
		w.start()
		w.after(time.Hour)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v were made", apps)
		}
	})
}

func TestApplicationRemovedWhileNobodyLookedIsFoundThroughTheLister(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.AddApplication("wordpress", fakes.App{})
		w.start()
		w.stop()
		w.controller.RemoveApplication("mysql")
		w.config.OperatorManager = w.manager.With(fakes.Listing)
		w.start()
		w.after(time.Minute)
		if got := strings.Join(w.manager.Apps(), " "); got != "wordpress" {
			t.Errorf("operators of %q are left, want wordpress alone", got)
		}
	})
}

func TestListerThatFailsIsAskedAgain(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.stop()
		w.controller.RemoveApplication("mysql")
		w.config.OperatorManager = w.manager.With(fakes.Listing)
		w.faults.Add(
			fakes.Rule{Method: "Operators", Times: 2, Effect: fakes.Effect{Err: boom}},
			fakes.Rule{Method: "Operators", Effect: fakes.Effect{Panic: "list"}},
		)
		w.start()
		resync := fmt.Sprint(w.worker.Report()["resync"])
		if !strings.Contains(resync, "listing operators: boom") {
			t.Errorf("resync is reported as %s", resync)
		}
		w.after(time.Minute) // well before the next resync
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
	})
}

func TestHalfMadeOperatorOfAGoneApplicationIsDeleted(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
		w.start()
		w.after(time.Minute)
		if w.exists("mysql") || len(w.manager.Apps()) != 1 {
			t.Fatal("the operator is not half made")
		}
		w.controller.RemoveApplication("mysql")
		w.after(time.Minute)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
	})
}

func TestApplicationWithoutItsCharmIsAwaitedWithBackoff(t *testing.T) {
	story(t, func(w *world) {
		w.config.Facade = w.controller.Plain()
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.RemoveCharm("mysql")
		w.start()
		w.reported("mysql", "waiting", "charm of application")
		w.after(10 * time.Second)
		if got := w.times("CharmInfo", "mysql"); fmt.Sprint(got) != "[0s 1s 3s 7s]" {
			t.Errorf("the charm was asked for at %v", got)
		}
		w.controller.SetCharm("mysql", fakes.Charm(1))
		synctest.Wait()
		w.provisioned("mysql")
	})
}

// O6, O7, O22632: the old operator still terminates.
func TestTerminatingOperatorIsAwaitedWithoutHoldingAnybodyUp(t *testing.T) {
	story(t, func(w *world) {
		w.config.Concurrency = 1
		w.config.OperatorManager = w.manager.With(fakes.Listing) // no watcher that would tell of the end
		w.manager.SetTermination(fakes.Termination{For: 10 * time.Minute}, "mysql")
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.controller.RemoveApplication("mysql")
		synctest.Wait()
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.AddApplication("wordpress", fakes.App{})
		synctest.Wait()
		w.provisioned("wordpress")
		w.reported("mysql", "waiting", "still terminating")

		w.faults.Reset()
		w.after(10 * time.Second)
		if got := len(w.times("OperatorExists", "mysql")); got != 3 {
			t.Errorf("looked %d times in 10 s, want 3", got)
		}
		w.after(3 * time.Minute)
		w.reported("mysql", "stuck", "still terminating after more than 3m")
		if got := w.entry("mysql")["terminating-for"]; got != "3m10s" {
			t.Errorf("terminating for %v, want 3m10s", got)
		}
		w.after(time.Minute)
		if n := len(w.log.Lines("level=WARN", "mysql")); n != 1 {
			t.Errorf("warned %d times, want once", n)
		}
		w.after(10 * time.Minute)
		w.provisioned("mysql")
		if got := w.total("stuck"); got != 0 {
			t.Errorf("%d stuck, want 0", got)
		}
	})
}

func TestDeletionThatHangsIsReportedAsStuck(t *testing.T) {
	story(t, func(w *world) {
		w.manager.SetTermination(fakes.Termination{Forever: true})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.controller.SetLife("mysql", facade.Dead)
		w.after(4 * time.Minute)
		w.reported("mysql", "stuck", "being deleted after more than 3m0s")
		w.manager.Finish("mysql")
		w.after(time.Minute)
		if got := w.worker.Report()["applications"]; got != nil {
			t.Errorf("still tracked: %v", got)
		}
	})
}

// O6: the loop that breaks what tears down in the wrong order.
func TestDeployAndRemove200Times(t *testing.T) {
	story(t, func(w *world) {
		w.manager.SetTermination(fakes.Termination{For: 5 * time.Second})
		w.start()
		for range 200 {
			w.controller.AddApplication("mysql", fakes.App{})
			w.after(10 * time.Second)
			w.provisioned("mysql")
			w.controller.RemoveApplication("mysql")
			synctest.Wait()
		}
		w.after(time.Minute)
		if apps := w.manager.Apps(); len(apps) != 0 {
			t.Errorf("operators of %v are left", apps)
		}
	})
}

func TestPermanentErrorIsReportedOnceAndWaitsForAChange(t *testing.T) {
	info := func(damage func(*facade.OperatorProvisioningInfo)) facade.OperatorProvisioningInfo {
		i := fakes.Info()
		damage(&i)
		return i
	}
	tests := []struct {
		about, reason string
		arrange       func(w *world)
		fine          func(w *world)
	}{
		{
			"storage of a provider that is not supported", `provider "tape"`,
			func(w *world) { w.controller.SetInfo("mysql", storage("tape")) },
			func(w *world) { w.controller.SetInfo("mysql", storage("kubernetes")) },
		},
		{
			"storage without a provider", "without a provider",
			func(w *world) { w.controller.SetInfo("mysql", storage("")) },
			func(w *world) { w.controller.SetInfo("mysql", fakes.Info()) },
		},
		{
			"a life that nobody knows", `life "undead"`,
			func(w *world) { w.controller.SetLife("mysql", "undead") },
			func(w *world) { w.controller.SetLife("mysql", facade.Alive) },
		},
		{
			"O2: a spec that the manager refuses", "forbidden field",
			func(w *world) {
				w.faults.Add(fakes.Rule{Method: "EnsureOperator", Key: "mysql", Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotValidf("forbidden field")}})
			},
			func(w *world) {
				w.faults.Clear()
				w.controller.SetInfo("mysql", info(func(i *facade.OperatorProvisioningInfo) { i.Version = "3.0.0" }))
			},
		},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			story(t, func(w *world) {
				w.controller.AddApplication("mysql", fakes.App{})
				w.controller.AddApplication("wordpress", fakes.App{})
				test.arrange(w)
				w.start()
				w.provisioned("wordpress")
				w.reported("mysql", "failed", test.reason)
				w.after(9 * time.Minute)
				if n := len(w.passes.of("mysql")); n > 6 {
					t.Errorf("%d passes in 9 minutes, want one every two", n)
				}
				if n := len(w.log.Lines("level=WARN", "application=mysql")); n != 1 {
					t.Errorf("%d warnings, want 1:\n%s", n, w.log.Text())
				}
				if got := w.controller.Status("mysql"); got.Status != facade.StatusError || got.Changes != 1 {
					t.Errorf("the status is %+v, want an error, set once", got)
				}
				test.fine(w)
				synctest.Wait()
				w.provisioned("mysql")
				if got := w.controller.Status("mysql"); got.Status != facade.StatusProvisioned || got.Message != "" {
					t.Errorf("the status is %+v, want provisioned", got)
				}
			})
		})
	}
}

func TestInvalidNameIsRefusedAndNeverPassedOn(t *testing.T) {
	names := []string{"", "../../etc", "My-App", strings.Repeat("a", 300)}
	story(t, func(w *world) {
		w.start()
		for _, name := range names {
			w.controller.Watchers("WatchApplications")[0].Send([]string{name})
			if err := w.worker.Trigger(name); !errors.Is(err, errors.NotValid) {
				t.Errorf("Trigger(%.10q) = %v, want NotValid", name, err)
			}
			synctest.Wait()
			w.reported(name, "failed", "application name")
		}
		w.after(time.Minute)
		for _, c := range w.faults.Calls() {
			for _, name := range names {
				if c.Key == name && name != "" {
					t.Errorf("%v was called", c)
				}
			}
		}
	})
}

func TestAnswersAreChecked(t *testing.T) {
	info := func(damage func(*facade.OperatorProvisioningInfo)) func(any) any {
		return fakes.Alter(func(i facade.OperatorProvisioningInfo) facade.OperatorProvisioningInfo {
			damage(&i)
			return i
		})
	}
	tests := []struct {
		about, method, reason string
		features              fakes.Features
		answer                func(any) any
	}{
		{"no version", "OperatorProvisioningInfo", "Version", 0, info(func(i *facade.OperatorProvisioningInfo) { i.Version = "" })},
		{"no addresses", "OperatorProvisioningInfo", "APIAddresses", 0, info(func(i *facade.OperatorProvisioningInfo) { i.APIAddresses = nil })},
		{
			"an address without a port", "OperatorProvisioningInfo", "APIAddresses[1]", 0,
			info(func(i *facade.OperatorProvisioningInfo) { i.APIAddresses[1] = "10.0.0.1" }),
		},
		{"no operator", "Operator", "without Config", fakes.Staging, fakes.Return(nil)},
		{"an empty certificate", "IssueOperatorCertificate", "CACert", 0, fakes.Return(facade.OperatorCertificate{})},
		{"an empty bulk answer", "ApplicationsInfo", `without application "mysql"`, fakes.BulkReads, fakes.Return(nil)},
		{"a short bulk answer", "ApplicationsInfo", `without application "mysql"`, fakes.BulkReads, fakes.Short[facade.ApplicationInfo]()},
		{"no answer to SetPasswords", "SetPasswords", "answer", 0, fakes.Return(nil)},
		{"a format that is none", "ApplicationsInfo", "Format", fakes.BulkReads, fakes.Alter(func(list []facade.ApplicationInfo) []facade.ApplicationInfo {
			list[0].Format = 0
			return list
		})},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.controller.With(test.features)
				w.config.OperatorManager = w.manager.With(test.features)
				w.controller.AddApplication("mysql", fakes.App{})
				if test.method == "Operator" {
					w.start()
					w.stop()
				}
				w.faults.Add(fakes.Rule{Method: test.method, Times: fakes.Always, Effect: fakes.Effect{Answer: test.answer}})
				w.start()
				w.reported("mysql", "failed", test.reason)
				w.faults.Clear()
				w.after(5 * time.Minute)
				w.provisioned("mysql")
			})
		})
	}
}

func TestBulkAnswersAreMatchedByName(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "ApplicationsInfo", Times: fakes.Always, Effect: fakes.Effect{Answer: fakes.Reversed[facade.ApplicationInfo](), Delay: time.Second}})
		for i := range 10 {
			w.controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
			w.controller.AddApplication(fmt.Sprintf("sidecar-a%d", i), fakes.App{Charm: fakes.Charm(2)})
		}
		w.start()
		w.after(time.Minute)
		for i := range 10 {
			w.provisioned(fmt.Sprintf("a%d", i))
		}
		if n := len(w.manager.Apps()); n != 10 {
			t.Errorf("%d operators, want 10", n)
		}
	})
}

// One round trip serves many: 1 + ceil(15/15) calls rather than 16.
func TestPasswordsLeaveInBatches(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "SetPasswords", Times: fakes.Always, Effect: fakes.Effect{Delay: time.Second}})
		for i := range 16 {
			w.controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
		}
		w.start()
		w.after(time.Minute)
		calls := 0
		for _, c := range w.faults.Calls() {
			if c.Method == "SetPasswords" {
				calls++
			}
		}
		if calls != 2 {
			t.Errorf("SetPasswords was called %d times, want 2", calls)
		}
		for i := range 16 {
			w.provisioned(fmt.Sprintf("a%d", i))
		}
	})
}

func TestOneBadApplicationInABatchFailsAlone(t *testing.T) {
	tests := []struct {
		about string
		rule  fakes.Rule
	}{
		{"with an error of its own", fakes.Rule{Method: "SetPasswords", Key: "a3", Times: fakes.Always, Effect: fakes.Effect{Err: boom}}},
		{"with an error for the whole call", fakes.Rule{Method: "SetPasswords", Times: fakes.Always, Effect: fakes.Effect{
			Delay: time.Second,
			Answer: fakes.Alter(func(results []error) []error {
				return results
			}),
		}}},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			story(t, func(w *world) {
				if test.rule.Key == "" {
					w.config.Facade = picky{Applications: w.controller, about: "a3"}
				}
				w.faults.Add(test.rule)
				for i := range 8 {
					w.controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
				}
				w.start()
				w.after(30 * time.Second)
				for i := range 8 {
					if i != 3 {
						w.provisioned(fmt.Sprintf("a%d", i))
					}
				}
				w.reported("a3", "failed", "setting the password")
				if got := w.total("failed"); got != 1 {
					t.Errorf("%d failed, want 1", got)
				}
			})
		})
	}
}

// picky is a controller that refuses a whole batch for one application in it.
type picky struct {
	facade.Applications
	about string
}

func (p picky) SetPasswords(ctx context.Context, in []facade.ApplicationPassword) ([]error, error) {
	for _, pw := range in {
		if pw.Name == p.about {
			return nil, errors.BadRequestf("password of %q", p.about)
		}
	}
	return p.Applications.SetPasswords(ctx, in)
}

func TestVanishedApplicationIsAnOutcomeAndNoError(t *testing.T) { // O27
	for _, method := range []string{"CharmInfo", "OperatorExists", "OperatorProvisioningInfo", "IssueOperatorCertificate", "StageOperator", "SetPasswords", "EnsureOperator"} {
		t.Run("before "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.controller.Plain()
				w.controller.AddApplication("mysql", fakes.App{})
				w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Before: func() { w.controller.RemoveApplication("mysql") }}})
				w.start()
				w.after(time.Minute)
				if apps := w.manager.Apps(); len(apps) != 0 {
					t.Errorf("operators of %v are left", apps)
				}
				if lines := w.log.Lines("level=WARN"); len(lines) != 0 && method != "CharmInfo" {
					t.Errorf("warned: %v", lines)
				}
				for _, pass := range w.passes.of("mysql") {
					if pass.Outcome == provisioner.OutcomeFailed {
						t.Errorf("a pass failed: %v", pass.Err)
					}
				}
			})
		})
	}
}

// What answers that it is not supported after all is done without, and not
// asked again.
func TestOptionalInterfaceThatIsNotSupportedIsDoneWithout(t *testing.T) {
	for _, method := range []string{"ApplicationsInfo", "StageOperator", "GlanceOperator", "Operators", "SetProvisioningStatus"} {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Concurrency = 1
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotSupportedf("%s", method)}})
				apps := []string{"mysql", "wordpress", "redis"}
				for _, app := range apps {
					w.controller.AddApplication(app, fakes.App{})
				}
				w.start()
				w.after(time.Hour)
				w.provisioned(apps...)
				asked := 0
				for _, c := range w.faults.Calls() {
					if c.Method == method {
						asked++
					}
				}
				if asked != 1 {
					t.Errorf("asked %d times, want once", asked)
				}
			})
		})
	}
}

// That something is not found by a call for many applications says nothing
// about any of them.
func TestBulkReadThatFailsAsAWholeIsNotAnApplicationThatIsGone(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.faults.Add(fakes.Rule{
			Method: "ApplicationsInfo", Times: 3, Effect: fakes.Effect{Err: errors.NotFoundf("model")},
		})
		if err := w.worker.Trigger("mysql"); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if n := w.faults.Count("DeleteOperator", "mysql"); n != 0 {
			t.Error("the operator of a living application was deleted")
		}
		w.provisioned("mysql")
	})
}

// An empty answer has the look of a charm of format 1.
func TestEmptyCharmInfoIsNotACharmOfFormat1(t *testing.T) {
	for _, life := range []facade.Life{facade.Alive, facade.Dead} {
		t.Run(string(life), func(t *testing.T) {
			story(t, func(w *world) {
				w.config.Facade = w.controller.Plain()
				w.controller.AddApplication("sidecar", fakes.App{Life: life, Charm: fakes.Charm(2)})
				w.faults.Add(fakes.Rule{Method: "CharmInfo", Times: 3, Effect: fakes.Effect{Answer: fakes.Return(nil)}})
				w.start()
				w.after(time.Minute)
				for _, c := range w.faults.Calls() {
					if c.Method == "OperatorExists" {
						t.Fatal("an application whose charm is of format 2 was taken for ours")
					}
				}
				passes := w.passes.of("sidecar")
				if first := passes[0]; !errors.Is(first.Err, errors.NotValid) {
					t.Errorf("the first pass ended in %s: %v", first.Outcome, first.Err)
				}
				if last := passes[len(passes)-1]; last.Outcome != provisioner.OutcomeSettled {
					t.Errorf("the last pass ended in %s: %v", last.Outcome, last.Err)
				}
			})
		})
	}
}

// The reply to a status was lost, and what it told is over by the next pass.
func TestStatusWhoseReplyWasLostIsSetRight(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.faults.Add(
			fakes.Rule{Method: "ApplicationsInfo", Effect: fakes.Effect{Err: boom}},
			fakes.Rule{Method: "SetProvisioningStatus", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}},
		)
		if err := w.worker.Trigger("mysql"); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		if got := w.controller.Status("mysql"); got.Status != facade.StatusProvisioned {
			t.Errorf("the status is %q for ever", got.Status)
		}
	})
}
