package pager_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	pager "github.com/sutler-dev/sutler/examples/testing"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

// How to read this file: each test sets up a world of fakes, starts the agent,
// lets something happen, and looks at what became of the world. No test spells
// out which calls are made; that may change. What they share is in host_test.go.

// It works when everything does.
func TestOperatorOfANewApplicationLogsIn(t *testing.T) {
	story(t, func(h *host) {
		h.start()
		h.controller.AddApplication("mysql", fakes.App{})
		h.after(0) // nothing has to be waited for

		h.worksFor("mysql")
		h.after(time.Hour)
		if text := h.phone.text(); text != "" {
			t.Errorf("somebody was paged: %s", text)
		}
	})
}

// The world's state is changed with the fakes' own methods.
func TestOperatorGoesWithItsApplication(t *testing.T) {
	story(t, func(h *host) {
		h.controller.AddApplication("mysql", fakes.App{})
		h.start()
		h.controller.SetLife("mysql", facade.Dead)
		h.after(0)
		h.controller.RemoveApplication("mysql")
		h.after(time.Minute)
		if apps := h.manager.Apps(); len(apps) > 0 {
			t.Errorf("operators left: %q", apps)
		}
	})
}

// A manager that fails for one application: a fault by rule, until it is
// cleared. This is what the pager is for.
func TestApplicationThatFailsForFiveMinutesIsPagedOnce(t *testing.T) {
	story(t, func(h *host) {
		h.controller.AddApplication("mysql", fakes.App{})
		h.controller.AddApplication("redis", fakes.App{})
		h.faults.Add(fakes.Rule{
			Method: "EnsureOperator", Key: "mysql", Times: fakes.Always,
			Effect: fakes.Effect{Err: errors.New("no room")},
		})
		h.start()

		// The good one is not held up by the bad one.
		h.worksFor("redis")
		h.after(pager.Patience - time.Second)
		if text := h.phone.text(); text != "" {
			t.Errorf("paged too early: %s", text)
		}
		h.after(time.Second + pager.Interval)
		want := "mysql is not provisioned: ensuring the operator: no room"
		if text := h.phone.text(); text != want {
			t.Errorf("paged %q, want %q", text, want)
		}

		// Once is enough, for as long as it lasts.
		h.after(3 * time.Hour)
		if text := h.phone.text(); text != want {
			t.Errorf("paged %q, want %q", text, want)
		}

		// When the manager is well again, so is the application, at the
		// next try: two minutes is the longest back-off.
		h.faults.Clear()
		h.after(2 * time.Minute)
		h.worksFor("mysql")
	})
}

func TestFailureThatPassesIsNotPaged(t *testing.T) {
	story(t, func(h *host) {
		h.controller.AddApplication("mysql", fakes.App{})
		h.faults.Add(fakes.Rule{
			Method: "EnsureOperator", Key: "mysql", Times: 3,
			Effect: fakes.Effect{Err: errors.New("no room")},
		})
		h.start()
		h.after(time.Hour)
		h.worksFor("mysql")
		if text := h.phone.text(); text != "" {
			t.Errorf("somebody was paged: %s", text)
		}
	})
}

// Not every trouble is an error of a call. This one is an answer: storage that
// nobody here can provide. And this one takes for ever.
func TestEveryKindOfTroubleIsPaged(t *testing.T) {
	nfs := fakes.Info()
	nfs.CharmStorage = &facade.CharmStorage{StorageName: "charm", Size: 1024, Provider: "nfs"}
	tests := []struct {
		about string
		cause func(*host)
		want  string
	}{{
		about: "permanent",
		cause: func(h *host) { h.controller.SetInfo("mysql", nfs) },
		want:  `mysql is not provisioned: charm storage provider "nfs" (have ["kubernetes"]) not supported`,
	}, {
		about: "stuck",
		cause: func(h *host) {
			h.manager.SetTermination(fakes.Termination{Forever: true})
			h.controller.RemoveApplication("mysql")
		},
		want: "mysql is not provisioned: the operator is being deleted after more than 3m0s",
	}, {
		about: "panic",
		cause: func(h *host) {
			h.faults.Add(fakes.Rule{
				Method: "EnsureOperator", Times: fakes.Always, Effect: fakes.Effect{Panic: "index out of range"},
			})
			// Something must change for the operator to be looked at.
			info := fakes.Info()
			info.Version = "2.9.50"
			h.controller.SetInfo("mysql", info)
		},
		want: "mysql is not provisioned: panic: index out of range",
	}, {
		about: "silence",
		cause: func(h *host) {
			// The controller does not answer: the deadline of the call is
			// what ends it, and the provisioner's business.
			h.faults.Add(fakes.Rule{
				Method: "OperatorProvisioningInfo", Times: fakes.Always, Effect: fakes.Effect{Gate: fakes.NewGate()},
			})
			h.controller.SetInfo("mysql", fakes.Info())
		},
		want: "mysql is not provisioned: reading provisioning info: no answer within 30s",
	}}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			story(t, func(h *host) {
				h.controller.AddApplication("mysql", fakes.App{})
				h.start()
				h.worksFor("mysql")
				test.cause(h)
				h.after(time.Hour)
				if text := h.phone.text(); text != test.want {
					t.Errorf("paged %q, want %q", text, test.want)
				}
			})
		})
	}
}

// The manager did what it was asked, and its reply was lost: Act says that an
// effect took place although the call failed.
func TestLostReplyChangesNoPassword(t *testing.T) {
	for _, method := range []string{"StageOperator", "SetPasswords", "EnsureOperator"} {
		t.Run(method, func(t *testing.T) {
			story(t, func(h *host) {
				h.controller.AddApplication("mysql", fakes.App{})
				h.faults.Add(fakes.Rule{
					Method: method,
					Effect: fakes.Effect{Err: errors.New("connection reset"), Act: fakes.Fully},
				})
				h.start()
				h.after(time.Minute)

				h.worksFor("mysql")
				if n := h.controller.PasswordChanges("mysql"); n != 1 {
					t.Errorf("the controller was told %d passwords, want one", n)
				}
			})
		})
	}
}

// The agent crashes, and is started again. Cut ends all that the old one might
// still do; new faults are a new process's connections.
func TestRestartChangesNoPassword(t *testing.T) {
	story(t, func(h *host) {
		h.controller.AddApplication("mysql", fakes.App{})
		h.start()
		h.worksFor("mysql")
		before := h.password("mysql")

		h.faults.Cut()
		h.stop()
		h.faults = fakes.NewFaults(clock.WallClock)
		h.start()

		h.worksFor("mysql")
		if h.password("mysql") != before {
			t.Error("the password became another one")
		}
		if n := h.manager.Restarts("mysql"); n > 0 {
			t.Errorf("the operator was restarted %d times", n)
		}
	})
}

// A crash at every single call, before it has an effect and after: whatever was
// cut off, the next agent makes good. This is the provisioner's promise, and
// costs its user one loop to hold it to.
func TestCrashAtAnyCallIsMadeGood(t *testing.T) {
	for call, crashed := 1, true; crashed; call++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d-after-%t", call, after), func(t *testing.T) {
				story(t, func(h *host) {
					h.controller.AddApplication("mysql", fakes.App{})
					h.faults.CutAt(call, after)
					h.start()
					select {
					case <-h.faults.Severed():
					default:
						crashed = false // there is no such call any more
					}
					h.stop()

					h.faults = fakes.NewFaults(clock.WallClock)
					h.start()
					h.worksFor("mysql")
					if err := h.manager.CheckHistory(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// What ends the provisioner is the business of its engine, which goes by what
// the manifold makes of the error.
func TestLostConnectionEndsTheProvisioner(t *testing.T) {
	story(t, func(h *host) {
		h.controller.AddApplication("mysql", fakes.App{})
		// Whatever is asked first; an empty method matches all.
		h.faults.Fail("", "mysql", errors.Annotate(facade.ErrConnectionLost, "websocket"))
		h.start()
		last := len(h.workers) - 1
		if err := h.workers[last].Wait(); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("the provisioner ended with %v", err)
		}
		h.workers = h.workers[:last] // that one was looked at just now

		// The pager went on, and hears of the next provisioner.
		h.faults = fakes.NewFaults(clock.WallClock)
		h.start()
		h.worksFor("mysql")
	})
}

// The pager by itself, with made-up passes: no provisioner is needed to find
// out what it makes of them.
func TestPagerCountsFromTheFirstFailureInARow(t *testing.T) {
	story(t, func(h *host) {
		p, err := pager.New(pager.Config{Clock: clock.WallClock, Page: h.phone.ring})
		if err != nil {
			t.Fatal(err)
		}
		h.workers = append(h.workers, p)
		pass := func(outcome provisioner.Outcome) {
			p.PassDone(provisioner.Pass{Application: "mysql", Outcome: outcome})
			h.after(pager.Patience / 2)
		}
		pass(provisioner.OutcomeFailed)
		pass(provisioner.OutcomeSettled)
		pass(provisioner.OutcomeFailed)
		if text := h.phone.text(); text != "" {
			t.Errorf("paged too early: %s", text)
		}
		pass(provisioner.OutcomePermanent)
		h.after(pager.Interval)
		if text := h.phone.text(); text != "mysql is not provisioned: permanent" {
			t.Errorf("paged %q", text)
		}
	})
}

// What the host does itself can fail, too.
func TestPageThatWasNotSentIsSentLater(t *testing.T) {
	story(t, func(h *host) {
		p, err := pager.New(pager.Config{Clock: clock.WallClock, Page: h.phone.ring})
		if err != nil {
			t.Fatal(err)
		}
		h.workers = append(h.workers, p)
		p.PassDone(provisioner.Pass{Application: "mysql", Outcome: provisioner.OutcomeFailed, Err: errors.New("no room")})
		h.phone.fail(errors.New("no signal"))
		h.after(time.Hour)
		h.phone.fail(nil)
		h.after(pager.Interval)
		if text := h.phone.text(); text != "mysql is not provisioned: no room" {
			t.Errorf("paged %q", text)
		}
	})
}

func TestConfigNamesTheFieldThatIsMissing(t *testing.T) {
	page := func(context.Context, string) error { return nil }
	for field, config := range map[string]pager.Config{
		"nil Clock not valid": {Page: page},
		"nil Page not valid":  {Clock: clock.WallClock},
	} {
		if _, err := pager.New(config); err == nil || err.Error() != field {
			t.Errorf("New = %v, want %s", err, field)
		}
	}
}
