package provisioner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// O19: a restart changes no password, and neither does an unreachable cluster.
func TestRestartChangesNoPassword(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		before := w.conf("mysql").Password()
		for range 5 {
			w.stop()
			w.faults.Add(fakes.Rule{Method: "Operator", Times: 3, Effect: fakes.Effect{Err: boom}})
			w.start()
			w.after(time.Minute)
		}
		if !w.conf("mysql").Password().Equal(before) || w.controller.PasswordChanges("mysql") != 1 {
			t.Error("the password changed")
		}
		if n := w.faults.Count("SetPasswords", "mysql"); n != 1 {
			t.Errorf("the controller was told %d times, want once", n)
		}
		w.provisioned("mysql")
	})
}

func TestOperatorThatChoseItsOwnPasswordIsLeftAlone(t *testing.T) { // O20
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		own := facade.NewSecret("the operator's own")
		if err := w.controller.ChangePassword("mysql", w.conf("mysql").Password(), own); err != nil {
			t.Fatal(err)
		}
		w.manager.WriteAgentConf("mysql", facade.NewSecret("its own file"))
		info := fakes.Info()
		info.APIAddresses = []string{"10.0.0.9:17070"}
		w.controller.SetInfo("mysql", info)
		w.after(time.Hour)
		w.stop()
		w.start()
		w.after(time.Hour)
		if err := w.controller.Login("mysql", own); err != nil {
			t.Errorf("the operator is locked out: %v", err)
		}
		if got := w.manager.AgentConf("mysql").Reveal(); got != "its own file" {
			t.Error("the operator's own file was replaced")
		}
	})
}

func TestControllerIsToldBeforeTheOperatorStarts(t *testing.T) {
	for _, features := range []fakes.Features{0, fakes.Staging} {
		story(t, func(w *world) {
			w.config.OperatorManager = w.manager.With(features)
			w.controller.AddApplication("mysql", fakes.App{})
			w.faults.Add(fakes.Rule{Method: "SetPasswords", Times: 5, Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
			w.faults.Add(fakes.Rule{Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Before: func() {
				if w.faults.Count("SetPasswords", "mysql") < 6 {
					t.Error("the operator was started before the controller had answered")
				}
			}}})
			w.start()
			if w.exists("mysql") {
				t.Error("the operator was started although the controller was not told")
			}
			w.after(time.Minute)
			w.provisioned("mysql")
		})
	}
}

// With a Stager, all attempts tell the one password that was stored first.
func TestStagedPasswordIsTheOneThatIsTold(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "SetPasswords", Times: 5, Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
		w.start()
		w.after(time.Minute)
		if n := w.controller.PasswordChanges("mysql"); n != 1 {
			t.Errorf("the controller was told %d passwords, want 1", n)
		}
	})
}

func TestHalfMadeOperatorKeepsItsPasswordAndIsToldAgain(t *testing.T) {
	for _, features := range []fakes.Features{0, fakes.Staging} {
		story(t, func(w *world) {
			w.config.OperatorManager = w.manager.With(features)
			w.controller.AddApplication("mysql", fakes.App{})
			w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
			w.start()
			before := w.conf("mysql").Password()
			w.after(time.Minute)
			w.provisioned("mysql")
			if !w.conf("mysql").Password().Equal(before) {
				t.Error("the password changed")
			}
			if n := w.faults.Count("SetPasswords", "mysql"); n != 2 {
				t.Errorf("the controller was told %d times, want 2", n)
			}
		})
	}
}

func TestUnreadableConfigurationGetsANewPassword(t *testing.T) {
	stored := map[string]func(good string) string{
		"nothing but text": func(string) string { return "certainly no agent.conf" },
		"no password":      func(good string) string { return dropLine(good, "oldpassword:") },
		"a blank password": func(good string) string { return dropLine(good, "oldpassword:") + "oldpassword: \" \"\n" },
		"half a file":      func(good string) string { return good[:len(good)/2] },
	}
	for about, damage := range stored {
		for _, features := range []fakes.Features{0, fakes.Staging} {
			t.Run(fmt.Sprint(about, " ", features), func(t *testing.T) {
				story(t, func(w *world) {
					w.config.OperatorManager = w.manager.With(features)
					w.controller.AddApplication("mysql", fakes.App{})
					w.start()
					w.stop()
					before := w.conf("mysql").Password()
					w.corrupt("mysql", damage)
					w.start()
					w.provisioned("mysql")
					if w.conf("mysql").Password().Equal(before) {
						t.Error("the password came back from nowhere")
					}
					if values := w.conf("mysql").Values; len(values) != 0 {
						t.Errorf("marks are left: %v", values)
					}
				})
			})
		}
	}
}

// The password of an operator that is there was replaced in store, and the
// worker died before it told the controller. Where only the configuration was
// missing, the operator fully exists by the staging alone.
func TestStagedPasswordOfAnOperatorThatIsThereIsToldAfterACrash(t *testing.T) {
	harm := map[string]func(w *world){
		"corrupt": func(w *world) { w.corrupt("mysql", func(string) string { return "gone" }) },
		"lost":    func(w *world) { w.manager.VanishConfig("mysql") },
	}
	for about, harm := range harm {
		t.Run(about, func(t *testing.T) {
			story(t, func(w *world) {
				w.controller.AddApplication("mysql", fakes.App{})
				w.start()
				w.stop()
				harm(w)
				w.faults.Add(fakes.Rule{Method: "SetPasswords", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
				w.start()
				w.stop()
				if !w.exists("mysql") || w.controller.Login("mysql", w.conf("mysql").Password()) == nil {
					t.Fatal("the story is not told as it should be")
				}
				w.faults.Clear()
				w.start()
				w.provisioned("mysql")
				if values := w.conf("mysql").Values; len(values) != 0 {
					t.Errorf("marks are left: %v", values)
				}
			})
		})
	}
}

// Without a Stager, another worker got its own password stored between our
// telling and our ensuring.
func TestConflictAfterTellingTellsTheStoredPassword(t *testing.T) {
	story(t, func(w *world) {
		w.config.OperatorManager = w.manager.With(fakes.Listing)
		w.controller.AddApplication("mysql", fakes.App{})
		other := w.config
		rival := &world{
			T: t, faults: fakes.NewFaults(w.config.Clock), controller: w.controller, manager: w.manager,
			agent: w.agent, log: w.log, passes: &passes{},
		}
		other.Facade = w.controller.Session(rival.faults)
		other.OperatorManager = w.manager.Session(rival.faults).With(fakes.Listing)
		rival.config = other
		// The rival tells before we do and ensures after we told.
		told := fakes.NewGate()
		rival.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Gate: told}})
		rival.start()
		defer rival.stop()
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Before: func() {
			told.Release()
			time.Sleep(time.Second)
		}}})
		w.start()
		w.after(2 * time.Second)
		w.provisioned("mysql")
		if n := w.manager.Conflicts("mysql"); n != 1 {
			t.Errorf("%d conflicts, want 1", n)
		}
		for _, pass := range w.passes.of("mysql") {
			if pass.Err != nil {
				t.Errorf("the conflict counted as a failure: %v", pass.Err)
			}
		}
	})
}

func TestConflictsWithoutEndBackOff(t *testing.T) { // O9
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.faults.Add(fakes.Rule{Method: "StageOperator", Times: fakes.Always, Effect: fakes.Effect{Err: operator.ErrConflict}})
		w.start()
		w.after(10 * time.Minute)
		if n := w.faults.Count("StageOperator", "mysql"); n > 40 {
			t.Errorf("%d attempts in 10 minutes", n)
		}
		w.reported("mysql", "failed", "staging the operator")
	})
}

// What the previous file held beyond what is rendered is kept; what is rendered
// follows its source.
func TestAgentConfKeepsWhatItHeldBeyond(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.stop()
		w.corrupt("mysql", func(good string) string {
			good = dropLine(good, "values:")
			return good + "loggingconfig: <root>=TRACE\nnonce: keep-me\nvalues:\n  FOO: bar\nfuture-key: [1, 2]\n"
		})
		info := fakes.Info()
		info.Version = "2.9.51"
		w.controller.SetInfo("mysql", info)
		w.agent.SetLogDir("/somewhere/else")
		w.start()
		conf := w.conf("mysql")
		if conf.LoggingConfig != "<root>=TRACE" || conf.Nonce != "keep-me" || conf.Values["FOO"] != "bar" {
			t.Errorf("lost what the file held: %+v", conf)
		}
		if !strings.Contains(w.manager.Config("mysql").AgentConf.Reveal(), "future-key:") {
			t.Error("lost a key of the future")
		}
		if conf.UpgradedToVersion != "2.9.51" || conf.LogDir != "/somewhere/else" {
			t.Errorf("did not follow its sources: %+v", conf)
		}
	})
}

// O4, O18: what permutes rolls nothing, what changes rolls once.
func TestPermutedAddressesWriteNothingAndChangedOnesOnce(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		writes := w.manager.Writes("mysql")
		info := fakes.Info()
		for range 10 {
			info.APIAddresses[0], info.APIAddresses[1] = info.APIAddresses[1], info.APIAddresses[0]
			w.controller.SetInfo("mysql", info)
			synctest.Wait()
		}
		if got := w.manager.Writes("mysql"); got != writes {
			t.Errorf("permuted addresses were written %d times", got-writes)
		}
		info.APIAddresses = []string{"10.0.0.3:17070"}
		w.controller.SetInfo("mysql", info)
		w.after(time.Hour)
		if got := w.manager.Writes("mysql"); got != writes+1 {
			t.Errorf("changed addresses were written %d times, want once", got-writes)
		}
		if got := w.conf("mysql").APIAddresses; fmt.Sprint(got) != "[10.0.0.3:17070]" {
			t.Errorf("addresses are %v", got)
		}
	})
}

// O3: a settled application is written nothing, however often it is looked at.
func TestSettledPassWritesNothing(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{Info: storage("kubernetes")})
		w.start()
		writes := w.manager.Writes("mysql")
		for range 10 {
			if err := w.worker.Trigger("mysql"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if got := w.manager.Writes("mysql"); got != writes {
			t.Errorf("written %d times", got-writes)
		}
		if n := w.faults.Count("IssueOperatorCertificate", "mysql"); n != 1 {
			t.Errorf("%d certificates were issued, want 1", n)
		}
	})
}

func TestUnreadableCAFailsWithItsName(t *testing.T) {
	story(t, func(w *world) {
		w.agent.SetCACert("")
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.reported("mysql", "failed", "CA")
		w.agent.SetCACert(w.controller.CACert())
		w.after(10 * time.Minute)
		w.provisioned("mysql")
	})
}

// corrupt changes the stored agent.conf behind everybody's back.
func (w *world) corrupt(app string, damage func(string) string) {
	w.Helper()
	cfg := w.manager.Config(app)
	cfg.AgentConf = facade.NewSecret(damage(cfg.AgentConf.Reveal()))
	other := w.manager.Session(fakes.NewFaults(w.config.Clock))
	if err := other.EnsureOperator(w.Context(), app, w.agent.DataDir(), cfg); err != nil {
		w.Fatal(errors.ErrorStack(err))
	}
}

// dropLine returns the text without the lines that begin with prefix.
func dropLine(text, prefix string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			out.WriteString(line)
		}
	}
	return out.String()
}
