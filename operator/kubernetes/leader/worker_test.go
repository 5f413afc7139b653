package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/worker/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

var _ worker.Worker = (*leader.Worker)(nil)

// takeover is how long a free Lease may stay without a holder: an attempt each
// retry period, with jitter, and one moment to be told.
const takeover = leader.DefaultRetryPeriod*22/10 + time.Millisecond

func TestOneLeadsAndOthersStandBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		defer a.stop(t)
		if took := within(t, time.Second, "a leads", a.Term().Elected()); took != 0 {
			t.Errorf("a led after %v, want at once", took)
		}
		began := time.Now().UTC().Format(time.RFC3339)
		b := c.stand(t, "b")
		defer b.stop(t)
		pass(10 * time.Minute)

		if !a.Term().Leading() || b.Term().Leading() {
			t.Errorf("leading: a %v, b %v", a.Term().Leading(), b.Term().Leading())
		}
		for _, agent := range []*agent{a, b} {
			report := agent.Report()
			for key, want := range map[string]any{
				"lease":       "model/sutler-leader",
				"identity":    agent.name,
				"leading":     agent == a,
				"holder":      "a",
				"since":       began,
				"transitions": 0,
				"dependents":  0,
				"error":       nil,
			} {
				if report[key] != want {
					t.Errorf("%s: report has %s %v, want %v", agent.name, key, report[key], want)
				}
			}
		}
		if n := a.log.count("msg=leading", "lease=model/sutler-leader", "identity=a"); n != 1 {
			t.Errorf("a told %d times that it leads:\n%s", n, a.log)
		}
		if n := b.log.count("another agent leads", "holder=a"); n != 1 {
			t.Errorf("b told %d times of a:\n%s", n, b.log)
		}
		if a.log.count("") != 1 || b.log.count("") != 1 {
			t.Errorf("more was logged in ten quiet minutes:\n%s%s", a.log, b.log)
		}
	})
}

func TestKilledLeaderReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		b := c.stand(t, "b")
		defer b.stop(t)
		pass(time.Minute)

		start := time.Now()
		a.Kill()
		if a.Term().Leading() {
			t.Error("a leads after Kill")
		}
		a.stop(t)
		if took := time.Since(start); took != 0 {
			t.Errorf("a ended after %v, want at once", took)
		}
		if holder := c.holder(); holder != "" {
			t.Errorf("the lease is held by %q", holder)
		}
		within(t, takeover, "b leads", b.Term().Elected())
		if got := b.Report()["transitions"]; got != 1 {
			t.Errorf("transitions = %v, want 1", got)
		}
		if a.log.count("released lease") != 1 {
			t.Errorf("a did not tell of the release:\n%s", a.log)
		}
		if a.Report()["leading"] != false {
			t.Errorf("report after the end: %v", a.Report())
		}
	})
}

func TestKilledWhileStandingByLeavesTheLeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		defer a.stop(t)
		within(t, time.Second, "a leads", a.Term().Elected())
		b := c.stand(t, "b")
		pass(time.Minute)
		calls := b.client.count("get")
		b.stop(t)
		if n := b.client.count("get") - calls; n != 0 || b.client.count("update") != 0 {
			t.Errorf("b made %d reads and %d writes", n, b.client.count("update"))
		}
		if !a.Term().Leading() || c.holder() != "a" {
			t.Errorf("a leads no longer; %q holds the lease", c.holder())
		}
		if closed := b.Term().Over(); within(t, time.Second, "b's term is over", closed) != 0 || b.Term().Leading() {
			t.Error("b's term goes on")
		}
	})
}

// faults are ways for a leader not to reach the API server.
var faults = map[string]func(ctx context.Context, verb string) error{
	"refused": func(context.Context, string) error { return errors.New("connection refused") },
	"hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
	"forbidden": func(_ context.Context, verb string) error {
		return forbidden(verb)
	},
	"throttled": func(context.Context, string) error { return apierrors.NewTooManyRequests("slow down", 1) },
}

func TestLeaderThatCannotRenewEndsBeforeAnotherLeads(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				a := c.stand(t, "a")
				within(t, time.Second, "a leads", a.Term().Elected())
				b := c.stand(t, "b")
				defer b.stop(t)
				pass(time.Minute)

				// It renews every two seconds.
				a.client.fail(fault)
				lost := within(t, leader.DefaultRenewDeadline+time.Millisecond, "a's term is over", a.Term().Over())
				if least := leader.DefaultRenewDeadline - leader.DefaultRetryPeriod; lost < least {
					t.Errorf("a gave up after %v, want %v or more", lost, least)
				}
				if b.Term().Leading() {
					t.Error("b led meanwhile")
				}
				err := a.Wait()
				if !errors.Is(err, leader.ErrLost) {
					t.Errorf("Wait() = %v, want ErrLost", err)
				}
				for _, want := range []string{"leading by lease model/sutler-leader", "not renewed for 10s: ", "ing lease: "} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("Wait() = %v, want it to say %q", err, want)
					}
				}
				if holder := c.holder(); holder != "a" {
					t.Errorf("the lease of a lost term is held by %q, want it left to expire", holder)
				}
				within(t, leader.DefaultLeaseDuration, "b leads", b.Term().Elected())
				if a.log.count("level=WARN", "election ended", "not renewed") != 1 {
					t.Errorf("the loss was not told once:\n%s", a.log)
				}
			})
		})
	}
}

func TestTermEndsInTimeEvenIfACallNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		stuck := make(chan struct{})
		a.client.fail(func(context.Context, string) error { <-stuck; return errors.New("connection reset") })
		within(t, leader.DefaultRenewDeadline+time.Millisecond, "a's term is over", a.Term().Over())
		done := ended(a)
		pass(time.Hour)
		select {
		case <-done:
			t.Error("the worker ended while a call of its was under way")
		default:
		}
		close(stuck)
		within(t, time.Second, "a ends", done)
		if err := a.Wait(); !errors.Is(err, leader.ErrLost) {
			t.Errorf("Wait() = %v, want ErrLost", err)
		}
	})
}

// Others count from when the API server wrote, which may be long before the leader
// has the answer.
func TestTermIsCountedFromWhenTheRenewalWasSent(t *testing.T) {
	const slow = 3 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		a.client.mu.Lock()
		a.client.after = func(context.Context, string) error { time.Sleep(slow); return nil }
		a.client.mu.Unlock()
		pass(time.Minute)
		if !a.Term().Leading() {
			t.Fatal("slow renewals cost the lease")
		}
		renewals := a.client.count("update")
		for a.client.count("update") == renewals {
			time.Sleep(10 * time.Millisecond)
		}
		written := time.Now() // it is, while the answer takes its time
		a.client.fail(faults["refused"])
		within(t, time.Minute, "a's term is over", a.Term().Over())
		if after := time.Since(written); after > leader.DefaultRenewDeadline || after < leader.DefaultRenewDeadline-time.Second {
			t.Errorf("a led for %v after its last renewal, want %v", after, leader.DefaultRenewDeadline)
		}
		if err := a.Wait(); !errors.Is(err, leader.ErrLost) {
			t.Errorf("Wait() = %v, want ErrLost", err)
		}
	})
}

func TestRenewalsThatFailForAWhileCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		defer a.stop(t)
		within(t, time.Second, "a leads", a.Term().Elected())
		for range 20 {
			a.client.fail(faults["refused"])
			pass(5 * time.Second)
			if got, _ := a.Report()["error"].(string); !strings.Contains(got, "reading lease: connection refused") {
				t.Errorf("report has error %q", got)
			}
			a.client.fail(nil)
			pass(2 * time.Second)
		}
		if !a.Term().Leading() || a.Report()["error"] != nil {
			t.Errorf("report: %v", a.Report())
		}
	})
}

func TestLeaderEndsAsSoonAsItSeesAnotherInTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		pass(time.Minute)
		other := "b"
		c.edit(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = &other })
		within(t, leader.DefaultRetryPeriod+time.Millisecond, "a's term is over", a.Term().Over())
		err := a.Wait()
		if !errors.Is(err, leader.ErrLost) || !strings.Contains(err.Error(), `held by "b"`) {
			t.Errorf("Wait() = %v, want an ErrLost that names b", err)
		}
		if c.holder() != "b" {
			t.Errorf("a wrote %q over the other's lease", c.holder())
		}
	})
}

func TestLeaseDeletedByHandIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		defer a.stop(t)
		within(t, time.Second, "a leads", a.Term().Elected())
		for range 10 {
			c.remove()
			pass(leader.DefaultRetryPeriod)
			if c.holder() != "a" || !a.Term().Leading() {
				t.Fatalf("%q holds the lease, a leading: %v", c.holder(), a.Term().Leading())
			}
		}
		if n := a.log.count("level=WARN"); n != 0 {
			t.Errorf("%d warnings:\n%s", n, a.log)
		}
	})
}

func TestWithoutRightsItTellsAndGoesOn(t *testing.T) {
	for _, verb := range []string{"get", "create", "update"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				if verb == "update" { // somebody led, and released
					before := c.stand(t, "before")
					within(t, time.Second, "it leads", before.Term().Elected())
					before.stop(t)
				}
				a := c.stand(t, "a", func(_ *leader.Config, client *client) {
					client.fail(func(_ context.Context, v string) error {
						if v == verb {
							return forbidden(verb)
						}
						return nil
					})
				})
				defer a.stop(t)
				pass(time.Minute)
				if n := a.client.count(verb); n < 60/5 || n > 31 {
					t.Errorf("%d attempts in a minute, want one each retry period", n)
				}
				if a.Term().Leading() {
					t.Error("it leads")
				}
				got, _ := a.Report()["error"].(string)
				if !strings.Contains(got, "ing lease: ") || !strings.Contains(got, "no right to "+verb) {
					t.Errorf("report has error %q, want what is forbidden", got)
				}
				if n := a.log.count("level=WARN", "trouble with lease", "no right to "+verb); n != 1 || a.log.count("level=ERROR") != 0 {
					t.Errorf("told %d times:\n%s", n, a.log)
				}
				// Another trouble is told of.
				a.client.fail(faults["throttled"])
				pass(10 * time.Second)
				if n := a.log.count("level=WARN", "slow down"); n != 1 {
					t.Errorf("the other trouble was told %d times:\n%s", n, a.log)
				}
				// The right is granted.
				a.client.fail(nil)
				within(t, takeover, "it leads", a.Term().Elected())
				if err := a.Report()["error"]; err != nil {
					t.Errorf("report still has error %v", err)
				}
			})
		})
	}
}

func TestMissingNamespaceIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCluster().stand(t, "a", func(_ *leader.Config, client *client) {
			client.fail(func(_ context.Context, verb string) error {
				if verb == "create" {
					return apierrors.NewNotFound(coordinationv1.Resource("namespaces"), namespace)
				}
				return nil
			})
		})
		defer a.stop(t)
		pass(time.Minute)
		if n := a.log.count("level=WARN", "creating lease", `\"model\" not found`); n != 1 {
			t.Errorf("told %d times:\n%s", n, a.log)
		}
	})
}

func TestKillIsPromptWhateverIsGoingOn(t *testing.T) {
	hang := faults["hangs"]
	for _, verb := range []string{"get", "create"} {
		t.Run(verb+" hangs", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newCluster().stand(t, "a", func(_ *leader.Config, client *client) {
					client.fail(func(ctx context.Context, v string) error {
						if v == verb {
							return hang(ctx, v)
						}
						return nil
					})
				})
				pass(time.Second)
				start := time.Now()
				a.client.fail(nil)
				a.stop(t)
				if took := time.Since(start); took != 0 {
					t.Errorf("took %v, want no time", took)
				}
			})
		})
	}
	t.Run("release hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			a := c.stand(t, "a")
			within(t, time.Second, "a leads", a.Term().Elected())
			a.client.fail(hang)
			start := time.Now()
			a.stop(t)
			if took := time.Since(start); took != time.Second {
				t.Errorf("took %v, want a second", took)
			}
			if c.holder() != "a" || a.log.count("level=WARN", "left to expire") != 1 {
				t.Errorf("%q holds the lease:\n%s", c.holder(), a.log)
			}
		})
	})
	t.Run("release is forbidden", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newCluster().stand(t, "a")
			within(t, time.Second, "a leads", a.Term().Elected())
			a.client.fail(faults["forbidden"])
			start := time.Now()
			a.stop(t)
			if took := time.Since(start); took != 0 || a.log.count("level=WARN", "left to expire", "no right") != 1 {
				t.Errorf("took %v:\n%s", took, a.log)
			}
		})
	})
}

// A write whose answer is lost has acted all the same.
func TestLeaseTakenByALostReplyIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a", func(_ *leader.Config, client *client) {
			client.after = func(ctx context.Context, verb string) error {
				if verb == "create" {
					return faults["hangs"](ctx, verb)
				}
				return nil
			}
		})
		pass(time.Second)
		if c.holder() != "a" || a.Term().Leading() {
			t.Fatalf("%q holds the lease, a leading: %v", c.holder(), a.Term().Leading())
		}
		a.stop(t)
		if c.holder() != "" {
			t.Errorf("%q holds the lease", c.holder())
		}
	})
}

func TestReleaseOutlivesARenewalThatItMeets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		times := 0
		a.client.fail(func(_ context.Context, verb string) error {
			if verb == "update" && times < 3 {
				times++
				return apierrors.NewConflict(leases, leaseName, errors.New("renewed"))
			}
			return nil
		})
		a.stop(t)
		if times != 3 || c.holder() != "" {
			t.Errorf("after %d conflicts %q holds the lease", times, c.holder())
		}
	})
}

func TestKilledLeaderReleasesNoOtherAgentsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		other := "b"
		c.edit(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = &other })
		a.stop(t)
		if c.holder() != "b" {
			t.Errorf("%q holds the lease, want b", c.holder())
		}
	})
}

func TestKilledWhenTheLeaseIsGoneIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		c.remove()
		a.stop(t)
		if c.lease() != nil || a.log.count("level=WARN") != 0 {
			t.Errorf("lease %v:\n%s", c.lease(), a.log)
		}
	})
}

func TestPanicInTheClientIsAnErrorOfTheWorker(t *testing.T) {
	for _, leading := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			boom := func(context.Context, string) error { panic("boom") }
			a := newCluster().stand(t, "a", func(_ *leader.Config, client *client) {
				if !leading {
					client.fail(boom)
				}
			})
			if leading {
				within(t, time.Second, "a leads", a.Term().Elected())
				a.client.fail(boom)
			}
			err := a.Wait()
			if err == nil || !strings.Contains(err.Error(), "panic: boom") || errors.Is(err, leader.ErrLost) {
				t.Errorf("leading %v: Wait() = %v, want the panic, and no ErrLost", leading, err)
			}
			if a.Term().Leading() {
				t.Errorf("leading %v: it still leads", leading)
			}
			if n := a.log.count("panic in client", "stack="); n != 1 {
				t.Errorf("leading %v: told %d times:\n%s", leading, n, a.log)
			}
		})
	}
}

func TestAgentThatCrashedLeadsAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		a := c.stand(t, "a")
		within(t, time.Second, "a leads", a.Term().Elected())
		a.client.fail(faults["refused"]) // no release either, as in a crash
		a.stop(t)
		again := c.stand(t, "a")
		defer again.stop(t)
		if took := within(t, time.Second, "a leads", again.Term().Elected()); took != 0 {
			t.Errorf("a led again after %v, want at once", took)
		}
		if got := again.Report()["transitions"]; got != 0 {
			t.Errorf("transitions = %v, want 0", got)
		}
	})
}

func TestLabelsAreAddedToThoseOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		labels := map[string]string{"app.kubernetes.io/managed-by": "juju"}
		a := c.stand(t, "a", func(config *leader.Config, _ *client) { config.Labels = labels })
		defer a.stop(t)
		within(t, time.Second, "a leads", a.Term().Elected())
		labels["late"] = "yes" // the config's owner may do that
		if got := c.lease().Labels; len(got) != 1 || got["app.kubernetes.io/managed-by"] != "juju" {
			t.Errorf("labels = %v", got)
		}
		c.edit(func(lease *coordinationv1.Lease) { lease.Labels = map[string]string{"team": "a"} })
		pass(leader.DefaultRetryPeriod * 2)
		if got := c.lease().Labels; len(got) != 2 || got["app.kubernetes.io/managed-by"] != "juju" || got["team"] != "a" {
			t.Errorf("labels = %v", got)
		}
	})
}

func TestLogOfTheLibraryIsForDebugging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log journal
		a := newCluster().stand(t, "a", func(config *leader.Config, _ *client) {
			config.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		within(t, time.Second, "a leads", a.Term().Elected())
		a.client.fail(faults["refused"])
		pass(time.Minute)
		if err := a.Wait(); !errors.Is(err, leader.ErrLost) {
			t.Errorf("Wait() = %v, want ErrLost", err)
		}
		if log.count("level=DEBUG", "acquire", "lease=model/sutler-leader") == 0 || log.count("level=DEBUG", "connection refused") < 2 {
			t.Errorf("nothing of the library's:\n%s", &log)
		}
		if log.count("level=ERROR") != 0 || log.count("level=INFO") != 1 || log.count("level=WARN") > 3 {
			t.Errorf("it is louder than that:\n%s", &log)
		}
	})
}

func TestNewRefusesWhatDoesNotValidate(t *testing.T) {
	w, err := leader.New(leader.Config{})
	if w != nil || err == nil || !strings.Contains(err.Error(), "nil Client") {
		t.Errorf("New() = %v, %v", w, err)
	}
}
