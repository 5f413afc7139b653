package provisioner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// known tells a story that begins with an operator whose stored files the worker
// knows to be right, so that it glances at them from now on.
func known(t *testing.T, tell func(w *world)) {
	t.Helper()
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.look("mysql")
		w.settledAsKnown()
		tell(w)
	})
}

// What a pass calls that finds everything as it knows it, and what one calls that
// has to read the files.
const (
	glancingPass = "OperatorExists GlanceOperator OperatorProvisioningInfo KeepOperator"
	readingPass  = "OperatorExists Operator OperatorProvisioningInfo EnsureOperator"
)

// calls returns the calls that f leads to about mysql, without those that read
// its life.
func (w *world) calls(f func()) string {
	w.faults.Reset()
	f()
	order := w.order("mysql")
	for _, life := range []string{"ApplicationsInfo", "Life", "CharmInfo"} {
		order = strings.ReplaceAll(order, life+" ", "")
	}
	return order
}

// settledAsKnown wants a pass to find everything as the worker knows it, and to
// change nothing.
func (w *world) settledAsKnown() {
	w.Helper()
	writes := w.manager.Writes("mysql")
	if got := w.calls(func() { w.look("mysql") }); got != glancingPass {
		w.Errorf("a settled pass calls %s\nwant                  %s", got, glancingPass)
	}
	if n := w.manager.Writes("mysql") - writes; n != 0 {
		w.Errorf("a settled pass wrote %d times", n)
	}
}

func TestSettledPassDoesNotReadTheFiles(t *testing.T) {
	known(t, func(w *world) {
		for range 5 {
			w.settledAsKnown()
		}
		w.faults.Reset()
		w.after(24 * time.Hour)
		if read, kept := w.faults.Count("Operator", "mysql"), w.faults.Count("KeepOperator", "mysql"); read != 0 || kept < 100 {
			t.Errorf("in a day of resyncs the files were read %d times, and %d times it was kept", read, kept)
		}
		w.provisioned("mysql")
	})
}

func TestPassThatKnowsNothingReadsTheFiles(t *testing.T) {
	known(t, func(w *world) {
		w.stop()
		if got := w.calls(w.start); !strings.HasPrefix(got, readingPass+" ") {
			t.Errorf("the first pass after a restart calls %s", got)
		}
		w.settledAsKnown()
	})
}

// What does not concern the files is changed without them.
func TestWhatIsBesideTheFilesChangesWithoutThem(t *testing.T) {
	known(t, func(w *world) {
		generation := w.manager.Config("mysql").Generation
		info := storage("kubernetes")
		info.ImageDetails.RegistryPath = "elsewhere:1"
		info.Tags = map[string]string{"k": "v"}
		got := w.calls(func() { w.controller.SetInfo("mysql", info); w.after(time.Second) })
		if !strings.HasPrefix(got, glancingPass) || strings.Contains(got, " Operator ") {
			t.Errorf("calls were %s", got)
		}
		cfg := w.manager.Running("mysql")
		if cfg.ImageDetails.RegistryPath != "elsewhere:1" || cfg.ResourceTags["k"] != "v" || cfg.CharmStorage == nil {
			t.Errorf("the operator was made from %+v", cfg)
		}
		if now := w.manager.Config("mysql").Generation; now != generation {
			t.Errorf("the generation became %s, from %s", now, generation)
		}
		w.provisioned("mysql")
	})
}

// Whatever is not as the worker knows it has it read the files, go the way of
// every pass, and know them again afterwards.
func TestWhatIsNotAsKnownHasTheFilesRead(t *testing.T) {
	tests := map[string]struct {
		change func(w *world)
		calls  string // of the first pass
		minted bool
	}{
		"addresses": {
			change: func(w *world) {
				w.info(func(i *facade.OperatorProvisioningInfo) { i.APIAddresses = []string{"10.0.0.9:17070"} })
			},
			calls: "OperatorExists GlanceOperator OperatorProvisioningInfo Operator EnsureOperator",
		},
		"permuted addresses": {
			change: func(w *world) {
				w.info(func(i *facade.OperatorProvisioningInfo) {
					i.APIAddresses[0], i.APIAddresses[1] = i.APIAddresses[1], i.APIAddresses[0]
				})
			},
			calls: "OperatorExists GlanceOperator OperatorProvisioningInfo Operator EnsureOperator",
		},
		"version": {
			change: func(w *world) { w.info(func(i *facade.OperatorProvisioningInfo) { i.Version = "2.9.50" }) },
			calls:  "OperatorExists GlanceOperator OperatorProvisioningInfo Operator EnsureOperator",
		},
		"CA": {
			change: func(w *world) {
				w.controller.RotateCA()
				w.agent.SetCACert(w.controller.CACert())
				w.look("mysql")
			},
			calls: "OperatorExists GlanceOperator OperatorProvisioningInfo Operator IssueOperatorCertificate EnsureOperator",
		},
		"log folder": {
			change: func(w *world) { w.agent.SetLogDir("/elsewhere"); w.look("mysql") },
			calls:  "OperatorExists GlanceOperator OperatorProvisioningInfo Operator EnsureOperator",
		},
		"another generation": {
			change: func(w *world) {
				w.corrupt("mysql", func(good string) string { return good + "nonce: other\n" })
				w.after(time.Second)
			},
			calls: "OperatorExists GlanceOperator Operator OperatorProvisioningInfo EnsureOperator",
		},
		"corrupt": {
			change: func(w *world) {
				w.corrupt("mysql", func(string) string { return "gone" })
				w.after(time.Second)
			},
			calls:  "OperatorExists GlanceOperator Operator OperatorProvisioningInfo StageOperator SetPasswords EnsureOperator",
			minted: true,
		},
		"operator vanished": {
			change: func(w *world) { w.manager.VanishOperator("mysql"); w.after(time.Second) },
			calls:  "OperatorExists Operator OperatorProvisioningInfo SetPasswords EnsureOperator",
		},
		"config vanished": {
			change: func(w *world) { w.manager.VanishConfig("mysql"); w.after(time.Second) },
			calls:  "OperatorExists Operator OperatorProvisioningInfo IssueOperatorCertificate StageOperator SetPasswords EnsureOperator",
			minted: true,
		},
		"all vanished": {
			change: func(w *world) { w.manager.Vanish("mysql"); w.after(time.Second) },
			calls:  "OperatorExists Operator OperatorProvisioningInfo IssueOperatorCertificate StageOperator SetPasswords EnsureOperator",
			minted: true,
		},
	}
	for about, test := range tests {
		t.Run(about, func(t *testing.T) {
			known(t, func(w *world) {
				before := w.conf("mysql").Password()
				if got := w.calls(func() { test.change(w) }); !strings.HasPrefix(got, test.calls) {
					t.Errorf("calls were %s\nwant            %s", got, test.calls)
				}
				w.after(time.Minute)
				w.provisioned("mysql")
				if minted := !w.conf("mysql").Password().Equal(before); minted != test.minted {
					t.Errorf("there is a new password: %t, want %t", minted, test.minted)
				}
				w.look("mysql")
				w.settledAsKnown()
			})
		})
	}
}

// info changes what mysql's operator is made from.
func (w *world) info(change func(*facade.OperatorProvisioningInfo)) {
	info := fakes.Info()
	change(&info)
	w.controller.SetInfo("mysql", info)
	w.after(time.Second)
}

// A certificate is renewed when it falls due, by a pass that reads the files.
func TestCertificateThatFallsDueHasTheFilesRead(t *testing.T) {
	story(t, func(w *world) {
		w.config.ResyncInterval = 10000 * day
		w.controller.SetCertificateLife(90 * day)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		w.look("mysql")
		w.after(59 * day)
		w.settledAsKnown()
		got := w.calls(func() { w.after(2 * day) })
		if want := "OperatorExists Operator OperatorProvisioningInfo IssueOperatorCertificate EnsureOperator"; !strings.HasPrefix(got, want) {
			t.Errorf("calls were %s\nwant            %s", got, want)
		}
		w.look("mysql")
		w.settledAsKnown()
		w.provisioned("mysql")
	})
}

// Between the glance and the keeping, another worker gets other files stored, or
// what is there vanishes: that is a conflict, and no failure.
func TestConflictOfKeepingHasEverythingReadAgain(t *testing.T) {
	tests := map[string]struct {
		between func(w *world)
		calls   string // after the conflict
	}{
		"updated": {
			func(w *world) { w.corrupt("mysql", func(good string) string { return good + "nonce: other\n" }) },
			readingPass,
		},
		"all vanished": {
			func(w *world) { w.manager.Vanish("mysql") },
			"OperatorExists Operator OperatorProvisioningInfo IssueOperatorCertificate StageOperator SetPasswords EnsureOperator",
		},
		"config vanished": {
			func(w *world) { w.manager.VanishConfig("mysql") },
			"OperatorExists Operator OperatorProvisioningInfo IssueOperatorCertificate StageOperator SetPasswords EnsureOperator",
		},
	}
	for about, test := range tests {
		t.Run(about, func(t *testing.T) {
			known(t, func(w *world) {
				conflicts := w.manager.Conflicts("mysql")
				w.faults.Add(fakes.Rule{Method: "KeepOperator", Effect: fakes.Effect{Before: func() { test.between(w) }}})
				got := w.calls(func() { w.look("mysql") })
				if want := glancingPass + " " + test.calls; !strings.HasPrefix(got, want) {
					t.Errorf("calls were %s\nwant            %s", got, want)
				}
				if n := w.manager.Conflicts("mysql") - conflicts; n != 1 {
					t.Errorf("%d conflicts, want 1", n)
				}
				for _, pass := range w.passes.of("mysql") {
					if pass.Err != nil {
						t.Errorf("the conflict counted as a failure: %v", pass.Err)
					}
				}
				w.after(time.Minute)
				w.provisioned("mysql")
				w.look("mysql")
				w.settledAsKnown()
			})
		})
	}
}

// An operator that vanished between the glance and the keeping, and left its
// configuration, is completed, as by EnsureOperator.
func TestKeepingCompletesWhatVanishedMeanwhile(t *testing.T) {
	known(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "KeepOperator", Effect: fakes.Effect{Before: func() { w.manager.VanishOperator("mysql") }}})
		w.look("mysql")
		w.provisioned("mysql")
	})
}

// What cannot be kept is ensured, and that has the last word.
func TestWhatCannotBeKeptIsEnsured(t *testing.T) {
	for _, refusal := range []error{errors.NotSupportedf("it"), errors.NotValidf("it"), operator.ErrConflict} {
		t.Run(fmt.Sprint(refusal), func(t *testing.T) {
			known(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "KeepOperator", Times: fakes.Always, Effect: fakes.Effect{Err: refusal}})
				if got := w.calls(func() { w.look("mysql") }); got != glancingPass+" "+readingPass {
					t.Errorf("calls were %s", got)
				}
				w.provisioned("mysql")
				if w.entry("mysql") != nil {
					t.Errorf("it is reported as %v", w.entry("mysql"))
				}
			})
		})
	}
	t.Run("refused by both", func(t *testing.T) {
		known(t, func(w *world) {
			for _, method := range []string{"KeepOperator", "EnsureOperator"} {
				w.faults.Add(fakes.Rule{Method: method, Times: fakes.Always, Effect: fakes.Effect{Err: errors.NotSupportedf("such storage")}})
			}
			w.look("mysql")
			w.reported("mysql", "failed", "ensuring the operator: such storage not supported")
		})
	})
}

// Any other failure of it is one of the pass; the next reads the files.
func TestFailureOfKeepingIsFollowedByAReadingPass(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"error":      {Err: boom},
		"lost reply": {Err: boom, Act: fakes.Fully},
		"half done":  {Err: boom, Act: fakes.Half},
		"panic":      {Panic: "boom"},
		"blocked":    {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			known(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "KeepOperator", Effect: effect})
				w.look("mysql")
				w.after(45 * time.Second)
				if passes := w.passes.of("mysql"); passes[len(passes)-2].Err == nil {
					t.Error("the failure was none")
				}
				if n := w.faults.Count("Operator", "mysql"); n != 1 {
					t.Errorf("the files were read %d times, want once", n)
				}
				w.provisioned("mysql")
				w.look("mysql")
				w.settledAsKnown()
			})
		})
	}
}

func TestFailureOfTheGlanceIsOneOfThePass(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"error":      {Err: boom},
		"no answer":  {Answer: fakes.Return(nil)},
		"no Config":  {Answer: fakes.Return(&operator.Operator{})},
		"panic":      {Panic: "boom"},
		"not at all": {Delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			known(t, func(w *world) {
				failures := len(w.passes.of("mysql"))
				w.faults.Add(fakes.Rule{Method: "GlanceOperator", Effect: effect})
				w.look("mysql")
				w.after(45 * time.Second)
				passes := w.passes.of("mysql")[failures:]
				if len(passes) != 2 || passes[0].Err == nil || passes[1].Err != nil {
					t.Errorf("passes were %+v, want one that fails and one that settles", passes)
				}
				w.settledAsKnown()
			})
		})
	}
}

// A glance that finds nothing, or no generation, tells nothing.
func TestGlanceThatShowsNothingHasTheFilesRead(t *testing.T) {
	for name, effect := range map[string]fakes.Effect{
		"not found":        {Err: errors.NotFoundf("operator")},
		"no generation":    {Answer: fakes.Return(&operator.Operator{Config: &operator.Config{}})},
		"another one":      {Answer: fakes.Return(&operator.Operator{Config: &operator.Config{Generation: "other"}})},
		"of what is dying": {Answer: fakes.Alter(func(op *operator.Operator) *operator.Operator { op.Dying = true; return op })},
	} {
		t.Run(name, func(t *testing.T) {
			known(t, func(w *world) {
				w.faults.Add(fakes.Rule{Method: "GlanceOperator", Effect: effect})
				got := w.calls(func() { w.look("mysql") })
				want := "OperatorExists GlanceOperator Operator OperatorProvisioningInfo EnsureOperator"
				if name == "of what is dying" {
					want = "OperatorExists GlanceOperator SetProvisioningStatus" // it waits for the end
				}
				if got != want {
					t.Errorf("calls were %s\nwant            %s", got, want)
				}
				w.after(time.Minute)
				w.settledAsKnown()
			})
		})
	}
}

// One who says that it is none after all is done without.
func TestGlancerThatIsNotSupportedIsDoneWithout(t *testing.T) {
	known(t, func(w *world) {
		w.faults.Fail("GlanceOperator", "mysql", errors.NotSupportedf("glancing"))
		if got, want := w.calls(func() { w.look("mysql") }), "OperatorExists GlanceOperator Operator OperatorProvisioningInfo EnsureOperator"; got != want {
			t.Errorf("calls were %s\nwant            %s", got, want)
		}
		if got := w.calls(func() { w.look("mysql") }); got != readingPass {
			t.Errorf("the next calls were %s\nwant                     %s", got, readingPass)
		}
	})
}

// A manager without generations has nothing to be glanced at.
func TestManagerWithoutGenerationsIsNotGlancedAt(t *testing.T) {
	story(t, func(w *world) {
		w.manager.HideGenerations()
		w.config.OperatorManager = w.manager.With(fakes.Glancing)
		w.controller.AddApplication("mysql", fakes.App{})
		w.start()
		for range 3 {
			w.look("mysql")
		}
		if n := w.faults.Count("GlanceOperator", "mysql"); n != 0 {
			t.Errorf("glanced at %d times", n)
		}
		w.provisioned("mysql")
	})
}

func TestDryRunReadsTheFiles(t *testing.T) {
	known(t, func(w *world) {
		w.stop()
		w.config.DryRun = true
		w.start()
		for range 3 {
			if got := w.calls(func() { w.look("mysql") }); got != "OperatorExists Operator OperatorProvisioningInfo" {
				t.Errorf("a dry run calls %s", got)
			}
		}
	})
}

// The controller was told a password in place of one that could not be read, and
// then that one is there again after all: the worker does not take what it knew
// of it for granted, whether it glances or not.
func TestPasswordThatIsBackIsToldAgain(t *testing.T) {
	for _, features := range []fakes.Features{0, fakes.Glancing} {
		story(t, func(w *world) {
			w.config.OperatorManager = w.manager.With(features)
			w.controller.AddApplication("mysql", fakes.App{})
			w.start()
			w.look("mysql")
			w.look("mysql")
			hidden := fakes.Alter(func(op *operator.Operator) *operator.Operator {
				op.Config.AgentConf, op.Config.Generation = facade.Secret{}, "other"
				return op
			})
			w.faults.Add(
				fakes.Rule{Method: "GlanceOperator", Effect: fakes.Effect{Answer: hidden}},
				fakes.Rule{Method: "Operator", Effect: fakes.Effect{Answer: hidden}},
				fakes.Rule{Method: "SetPasswords", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}},
			)
			w.look("mysql")
			w.after(time.Minute)
			w.provisioned("mysql")
		})
	}
}
