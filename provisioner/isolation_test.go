package provisioner_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/provisioner"
)

// methods are all that a pass may call of the facade and the manager.
var methods = []string{
	"Life", "ApplicationsInfo", "CharmInfo", "OperatorExists", "Operator", "OperatorProvisioningInfo",
	"IssueOperatorCertificate", "StageOperator", "SetPasswords", "EnsureOperator", "SetProvisioningStatus",
	"GlanceOperator", "KeepOperator", "DeleteOperator",
}

// lived tells of an application's life in which every method is called, and
// reports whether it was.
func lived(w *world, features fakes.Features, method string) bool {
	w.config.Facade = w.controller.With(features)
	w.controller.AddApplication("mysql", fakes.App{})
	w.start()
	w.after(10 * time.Second)
	w.look("mysql") // the first that finds it settled, or the second
	w.look("mysql")
	w.controller.RemoveApplication("mysql")
	w.after(10 * time.Second)
	return w.faults.Count(method, "") > 0 || w.faults.Count(method, "mysql") > 0
}

// featuresFor chooses the reads that make the method be called.
func featuresFor(method string) fakes.Features {
	if method == "Life" || method == "CharmInfo" {
		return fakes.StatusReports
	}
	return fakes.StatusReports | fakes.BulkReads
}

func TestKillReturnsWithinASecondWhateverGoesOn(t *testing.T) {
	for _, method := range append(slices.Clone(methods), "WatchApplications", "WatchOperators", "Operators") {
		t.Run("blocked in "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				if !lived(w, featuresFor(method), method) {
					t.Errorf("%s was never called", method)
				}
				killed := time.Now()
				w.stop()
				if took := time.Since(killed); took > time.Second {
					t.Errorf("it took %v to stop", took)
				}
			})
		})
	}
}

// O8: every call has a deadline, and what blocked goes on afterwards.
func TestCallThatBlocksTimesOut(t *testing.T) {
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.config.CallTimeout = 3 * time.Second
				w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Gate: fakes.NewGate()}})
				lived(w, featuresFor(method), method)
				w.controller.AddApplication("wordpress", fakes.App{})
				w.after(time.Minute)
				w.provisioned("wordpress")
				if got := strings.Join(w.manager.Apps(), " "); got != "wordpress" {
					t.Errorf("operators are %q, want wordpress alone", got)
				}
				if method != "SetProvisioningStatus" && len(w.log.Lines("no answer within 3s")) == 0 {
					t.Errorf("nothing says that the call timed out:\n%s", w.log.Text())
				}
			})
		})
	}
}

// Good applications are ready as soon as without stuck ones beside them.
func TestHealthyApplicationsAreNotDelayedByStuckOnes(t *testing.T) {
	settled := func(stuck int) time.Duration {
		var took time.Duration
		story(t, func(w *world) {
			w.config.Concurrency = 8
			w.config.Facade = w.controller.Plain() // no batch to share
			w.faults.SetLatency(10 * time.Millisecond)
			for i := range stuck {
				app := fmt.Sprintf("stuck%d", i)
				w.controller.AddApplication(app, fakes.App{})
				w.faults.Add(fakes.Rule{Method: "EnsureOperator", Key: app, Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
			}
			w.start()
			w.after(10 * time.Minute)
			start := time.Now()
			for i := range 50 {
				w.controller.AddApplication(fmt.Sprintf("good%d", i), fakes.App{})
			}
			synctest.Wait()
			for w.total("settled") < 50 {
				w.after(5 * time.Millisecond)
			}
			took = time.Since(start)
		})
		return took
	}
	if with, without := settled(5), settled(0); with > without+without/10 {
		t.Errorf("good applications took %v beside stuck ones, %v without", with, without)
	}
}

func TestPanicIsOneApplicationsFailure(t *testing.T) {
	for _, method := range methods {
		t.Run("in "+method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: 3, Effect: fakes.Effect{Panic: "the sky is falling"}})
				lived(w, featuresFor(method), method)
				w.controller.AddApplication("wordpress", fakes.App{})
				w.after(time.Minute)
				w.provisioned("wordpress")
				if got := strings.Join(w.manager.Apps(), " "); got != "wordpress" {
					t.Errorf("operators are %q, want wordpress alone", got)
				}
				if n := len(w.log.Lines("level=ERROR", "stack=", "the sky is falling")); n == 0 || n > 3 {
					t.Errorf("the stack was logged %d times", n)
				}
			})
		})
	}
}

func TestRepeatedPanicLogsItsStackOnce(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Panic: "again"}})
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.after(time.Hour)
		if n := len(w.log.Lines("stack=")); n != 1 {
			t.Errorf("the stack was logged %d times, want once", n)
		}
		w.reported("mysql", "failed", "panic: again")
		panicked := 0
		for _, pass := range w.passes.of("mysql") {
			if pass.Outcome == provisioner.OutcomePanicked {
				panicked++
			}
		}
		if panicked < 10 || panicked > 60 {
			t.Errorf("%d passes panicked in an hour, want one about every two minutes", panicked)
		}
	})
}

func TestPanicOfTheHostsMetricsIsLogged(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = explosive{}
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.provisioned("mysql")
		if len(w.log.Lines("metrics panicked")) == 0 {
			t.Error("the panic was swallowed")
		}
	})
}

type explosive struct{}

func (explosive) PassDone(provisioner.Pass) { panic("metrics") }

func TestWatcherThatEndsEndsTheWorker(t *testing.T) {
	watchers := map[string]func(w *world) *fakes.Watcher[[]string]{
		"applications": func(w *world) *fakes.Watcher[[]string] { return w.controller.Watchers("WatchApplications")[0] },
		"provisioning": func(w *world) *fakes.Watcher[[]string] { return w.controller.Watchers("WatchProvisioning")[0] },
		"operators":    func(w *world) *fakes.Watcher[[]string] { return w.manager.Watchers()[0] },
	}
	ends := map[string]func(*fakes.Watcher[[]string]){
		"boom":                   func(w *fakes.Watcher[[]string]) { w.Fail(boom) },
		"closed its channel":     (*fakes.Watcher[[]string]).Close,
		"ended without an error": (*fakes.Watcher[[]string]).End,
	}
	for name, watcher := range watchers {
		for why, end := range ends {
			t.Run(name+" "+why, func(t *testing.T) {
				story(t, func(w *world) {
					w.start()
					end(watcher(w))
					if err := w.ended(); err == nil || !strings.Contains(err.Error(), why) {
						t.Errorf("the worker ended with %v, want %q", err, why)
					}
				})
			})
		}
	}
}

func TestWatcherThatCannotBeHadEndsTheWorker(t *testing.T) {
	for _, method := range []string{"WatchApplications", "WatchProvisioning", "WatchOperators"} {
		effects := map[string]fakes.Effect{
			"boom":                 {Err: boom},
			"nil watcher":          {Answer: fakes.Return(nil)},
			"no answer within 30s": {Gate: fakes.NewGate()},
			"nil channel of chang": {Answer: fakes.Return(facade.StringsWatcher(mute{fakes.NewStringsWatcher()}))},
		}
		for why, effect := range effects {
			t.Run(method+" "+why, func(t *testing.T) {
				story(t, func(w *world) {
					w.faults.Add(fakes.Rule{Method: method, Effect: effect})
					if effect.Gate != nil {
						// Made in this bubble.
						w.faults.Clear()
						w.faults.Add(fakes.Rule{Method: method, Effect: fakes.Effect{Gate: fakes.NewGate()}})
					}
					w.start()
					if err := w.ended(); err == nil || !strings.Contains(err.Error(), why) {
						t.Errorf("the worker ended with %v, want %q", err, why)
					}
				})
			})
		}
	}
}

// mute is a watcher without a channel.
type mute struct{ *fakes.Watcher[[]string] }

func (mute) Changes() <-chan []string { return nil }

func TestLostConnectionEndsTheWorkerAndNothingElseDoes(t *testing.T) {
	lost := errors.WithType(boom, facade.ErrConnectionLost)
	for _, method := range methods {
		t.Run(method, func(t *testing.T) {
			story(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: lost}})
				w.config.Facade = w.controller.With(featuresFor(method))
				w.controller.AddApplication("mysql", fakes.App{})
				w.start()
				switch method {
				case "OperatorExists", "Operator", "StageOperator", "EnsureOperator", "GlanceOperator", "KeepOperator", "DeleteOperator":
					// The manager's connection is not the controller's.
					w.after(time.Minute)
					w.look("mysql")
					w.look("mysql")
				default:
					if err := w.ended(); !errors.Is(err, facade.ErrConnectionLost) {
						t.Errorf("the worker ended with %v, want ErrConnectionLost", err)
					}
				}
			})
		})
	}
}

func TestHostDecidesWhatIsFatal(t *testing.T) {
	story(t, func(w *world) {
		w.config.IsFatal = func(err error) bool { return errors.Is(err, boom) }
		w.faults.Fail("CharmInfo", "", boom)
		w.config.Facade = w.controller.Plain()
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		if err := w.ended(); !errors.Is(err, boom) {
			t.Errorf("the worker ended with %v, want boom", err)
		}
	})
}

// O9: a permission error is not repeated without a pause.
func TestAttemptsPerMinuteAreBounded(t *testing.T) {
	for _, method := range methods {
		if method == "SetProvisioningStatus" || method == "DeleteOperator" {
			continue
		}
		story(t, func(w *world) {
			w.config.Facade = w.controller.With(featuresFor(method))
			w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.Forbiddenf("it"), Act: fakes.Half}})
			w.controller.AddApplication("mysql", fakes.App{})
			w.start()
			w.after(time.Minute)
			// 0, 1, 3, 7, 15, 31 s, and one echo, or two passes that settled before.
			if n := len(w.passes.of("mysql")); n > 8 {
				t.Errorf("%s: %d attempts in the first minute", method, n)
			}
			w.after(time.Hour)
			if n := len(w.passes.of("mysql")); n > 40 {
				t.Errorf("%s: %d attempts in an hour", method, n)
			}
		})
	}
}

func TestDefaultBackoffStaysBetweenASecondAndTwoMinutes(t *testing.T) { // O10
	story(t, func(w *world) {
		w.config.Backoff = nil
		w.config.Facade = w.controller.Plain()
		w.faults.Add(fakes.Rule{Method: "Life", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		for i := range 20 {
			w.controller.AddApplication(fmt.Sprintf("a%d", i), fakes.App{})
		}
		w.start()
		w.after(time.Hour)
		apart := map[time.Duration]bool{}
		for i := range 20 {
			app := fmt.Sprintf("a%d", i)
			times := w.times("Life", app)
			for j := 1; j < len(times); j++ {
				if d := times[j] - times[j-1]; d < time.Second || d > 2*time.Minute {
					t.Errorf("%s waited for %v", app, d)
				}
			}
			apart[times[len(times)-1]] = true
		}
		if len(apart) < 15 { // O8: no herd
			t.Errorf("20 applications are looked at in %d moments", len(apart))
		}
	})
}

func TestOneKeyIsNeverInFlightTwice(t *testing.T) { // O12
	story(t, func(w *world) {
		w.faults.SetLatency(7 * time.Millisecond)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		for i := range 200 {
			w.controller.SetInfo("mysql", fakes.Info())
			_ = w.worker.Trigger("mysql")
			w.after(time.Duration(i) * time.Millisecond / 10)
		}
		w.after(time.Minute)
		if n := w.faults.Peak("mysql"); n != 1 {
			t.Errorf("%d calls about one application at once", n)
		}
	})
}

// Everything that can be printed is printed, at the lowest level, and searched.
func TestSecretsAreShownNowhere(t *testing.T) { // O21
	story(t, func(w *world) {
		info := storage("kubernetes")
		info.ImageDetails.Username = "user"
		for i, s := range []*facade.Secret{&info.ImageDetails.Password, &info.ImageDetails.Auth, &info.ImageDetails.IdentityToken, &info.ImageDetails.RegistryToken} {
			*s = facade.NewSecret(fmt.Sprintf("canary-%d", i))
		}
		var seen strings.Builder
		for i, method := range methods {
			app := fmt.Sprintf("a%d", i)
			w.faults.Add(fakes.Rule{Method: method, Key: app, Times: 3, Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
			w.faults.Add(fakes.Rule{Method: method, Key: app, Times: 1, Effect: fakes.Effect{Panic: "panic"}})
			w.controller.AddApplication(app, fakes.App{Info: info})
		}
		w.start()
		for range 20 {
			w.after(time.Minute)
			fmt.Fprintf(&seen, "%v\n", w.worker.Report())
		}
		secrets := []string{"canary-", "PRIVATE KEY"}
		for i := range methods {
			app := fmt.Sprintf("a%d", i)
			w.provisioned(app)
			secrets = append(secrets, w.conf(app).Password().Reveal())
			fmt.Fprintf(&seen, "%+v %v", w.passes.of(app), w.controller.Status(app))
		}
		seen.WriteString(w.log.Text())
		for _, secret := range secrets {
			if strings.Contains(seen.String(), secret) {
				t.Errorf("a secret is shown: %.12s", secret)
			}
		}
	})
}

// A manager may honour its context late: others are not held up meanwhile.
func TestManagerThatIsSlowToListenHoldsUpNobodyElse(t *testing.T) {
	story(t, func(w *world) {
		w.config.OperatorManager = sleepy{Manager: w.manager, app: "mysql"}
		w.controller.AddApplication("mysql", fakes.App{})
		w.controller.AddApplication("wordpress", fakes.App{})
		w.start()
		w.provisioned("wordpress")
	})
}

// sleepy is a manager that takes a minute more than it may for one application.
type sleepy struct {
	operator.Manager
	app string
}

func (s sleepy) EnsureOperator(ctx context.Context, app, agentPath string, cfg *operator.Config) error {
	if app == s.app {
		time.Sleep(time.Minute)
	}
	return s.Manager.EnsureOperator(ctx, app, agentPath, cfg)
}
