package fakes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

const boom = errors.ConstError("boom")

// world is a controller with the applications named, and a manager, over one
// connection.
func world(apps ...string) (*fakes.Faults, *fakes.Controller, *fakes.Manager) {
	f := fakes.NewFaults(clock.WallClock)
	c := fakes.NewController(f)
	for _, app := range apps {
		c.AddApplication(app, fakes.App{})
	}
	return f, c, fakes.NewManager(f)
}

// bubble runs the test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestRulesBefallTheCallsTheyMatch(t *testing.T) {
	tests := []struct {
		name  string
		rules []fakes.Rule
		// fails has one letter for each Life of a, b, a, b, ...: x fails.
		fails string
	}{
		{"none", nil, "......"},
		{"next", []fakes.Rule{{Method: "Life"}}, "x....."},
		{"next, whatever the method", []fakes.Rule{{}}, "x....."},
		{"another method", []fakes.Rule{{Method: "CharmInfo"}}, "......"},
		{"next for a key", []fakes.Rule{{Method: "Life", Key: "b"}}, ".x...."},
		{"n times", []fakes.Rule{{Method: "Life", Times: 3}}, "xxx..."},
		{"n times for a key", []fakes.Rule{{Key: "b", Times: 2}}, ".x.x.."},
		{"always", []fakes.Rule{{Method: "Life", Times: fakes.Always}}, "xxxxxx"},
		{"after some", []fakes.Rule{{Method: "Life", Skip: 2}}, "..x..."},
		{"after some for a key", []fakes.Rule{{Key: "a", Skip: 1, Times: fakes.Always}}, "..x.x."},
		{"one after the other", []fakes.Rule{{Key: "a"}, {Key: "a"}}, "x.x..."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f, c, _ := world("a", "b")
			for _, r := range test.rules {
				r.Err = boom
				f.Add(r)
			}
			var got strings.Builder
			for i := range test.fails {
				if _, err := c.Life(t.Context(), []string{"a", "b"}[i%2]); errors.Is(err, boom) {
					got.WriteByte('x')
				} else if err == nil {
					got.WriteByte('.')
				} else {
					t.Fatal(err)
				}
			}
			if got.String() != test.fails {
				t.Errorf("failed %s, want %s", got.String(), test.fails)
			}
		})
	}
}

func TestEarlierRulesGoFirst(t *testing.T) {
	f, c, _ := world("a")
	f.Fail("Life", "", errors.Timeout)
	f.Add(fakes.Rule{Method: "Life", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
	for _, want := range []error{errors.Timeout, boom, boom} {
		if _, err := c.Life(t.Context(), "a"); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	f.Clear()
	if _, err := c.Life(t.Context(), "a"); err != nil {
		t.Errorf("after Clear: %v", err)
	}
}

func TestHowMuchAFailingCallDoes(t *testing.T) {
	tests := []struct {
		act    fakes.Extent
		set    []string
		exists bool
		stored bool
	}{
		{fakes.Nothing, nil, false, false},
		{fakes.Half, []string{"a"}, false, true},
		{fakes.Fully, []string{"a", "b"}, true, true},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.act), func(t *testing.T) {
			f, c, m := world("a", "b")
			f.Add(fakes.Rule{Times: fakes.Always, Effect: fakes.Effect{Err: boom, Act: test.act}})
			_, err := c.SetPasswords(t.Context(), []facade.ApplicationPassword{
				{Name: "a", Password: facade.NewSecret("1")}, {Name: "b", Password: facade.NewSecret("2")},
			})
			if !errors.Is(err, boom) {
				t.Errorf("SetPasswords: %v", err)
			}
			for _, app := range []string{"a", "b"} {
				if _, ok := c.Password(app); ok != slices.Contains(test.set, app) {
					t.Errorf("password of %s set: %t", app, ok)
				}
			}
			if err := m.EnsureOperator(t.Context(), "a", "/data", config("1")); !errors.Is(err, boom) {
				t.Errorf("EnsureOperator: %v", err)
			}
			if got := m.State("a").Exists; got != test.exists {
				t.Errorf("operator exists: %t", got)
			}
			if got := m.Config("a") != nil; got != test.stored {
				t.Errorf("config stored: %t", got)
			}
			acted := test.act != fakes.Nothing
			for _, call := range f.Calls() {
				if call.Acted != acted || !errors.Is(call.Err, boom) || call.End.IsZero() {
					t.Errorf("recorded %+v", call)
				}
			}
		})
	}
}

func TestHalfADeletionLeavesTheConfiguration(t *testing.T) {
	f, _, m := world()
	if err := m.EnsureOperator(t.Context(), "a", "/data", config("1")); err != nil {
		t.Fatal(err)
	}
	f.Add(fakes.Rule{Method: "DeleteOperator", Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
	if err := m.DeleteOperator(t.Context(), "a"); !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	if m.State("a").Exists || m.Config("a") == nil {
		t.Errorf("state %+v, config %v", m.State("a"), m.Config("a"))
	}
}

func TestCallsTakeTime(t *testing.T) {
	tests := []struct {
		name    string
		effect  fakes.Effect
		timeout time.Duration
		took    time.Duration
		acted   bool
		err     error
	}{
		{"delay", fakes.Effect{Delay: time.Hour}, 0, time.Hour, true, nil},
		{"late reply", fakes.Effect{Late: time.Hour}, 0, time.Hour, true, nil},
		{"both", fakes.Effect{Delay: time.Hour, Late: time.Minute}, 0, 61 * time.Minute, true, nil},
		{"deadline in the delay", fakes.Effect{Delay: time.Hour}, time.Minute, time.Minute, false, context.DeadlineExceeded},
		{"deadline in the late reply", fakes.Effect{Late: time.Hour}, time.Minute, time.Minute, true, context.DeadlineExceeded},
		{"deadline at the gate", fakes.Effect{Gate: fakes.NewGate()}, time.Minute, time.Minute, false, context.DeadlineExceeded},
		{"deaf to the deadline", fakes.Effect{Delay: time.Hour, Deaf: true}, time.Minute, time.Hour, true, nil},
		{"deaf and late", fakes.Effect{Late: time.Hour, Deaf: true}, time.Minute, time.Hour, true, nil},
		{"delay, then failure", fakes.Effect{Delay: time.Hour, Err: boom}, 0, time.Hour, false, boom},
		{"lost reply, late", fakes.Effect{Late: time.Hour, Err: boom, Act: fakes.Fully}, 0, time.Hour, true, boom},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, _, m := world()
				if test.effect.Gate != nil {
					test.effect.Gate = fakes.NewGate() // of this bubble
				}
				f.Add(fakes.Rule{Effect: test.effect})
				ctx := t.Context()
				if test.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				start := time.Now()
				err := m.EnsureOperator(ctx, "a", "/data", config("1"))
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if took := time.Since(start); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if acted := m.State("a").Exists; acted != test.acted {
					t.Errorf("acted: %t, want %t", acted, test.acted)
				}
				call := f.Calls()[0]
				if call.End.Sub(call.Start) != test.took || call.Acted != test.acted {
					t.Errorf("recorded %+v", call)
				}
			})
		})
	}
}

func TestLatencyIsAddedToEveryCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c, m := world("a")
		f.SetLatency(time.Second)
		f.Add(fakes.Rule{Method: "Life", Effect: fakes.Effect{Delay: time.Minute}})
		start := time.Now()
		for range 2 {
			if _, err := c.Life(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := m.OperatorExists(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		f.OnCall(func(fakes.Call) fakes.Effect { return fakes.Effect{Delay: time.Hour} })
		if _, err := m.OperatorExists(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(start), time.Hour+time.Minute+4*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

func TestGateHoldsCallsUntilItIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, c, _ := world("a", "b")
		gate := fakes.NewGate()
		f.Add(fakes.Rule{Method: "Life", Key: "a", Times: fakes.Always, Effect: fakes.Effect{Gate: gate}})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if life, err := c.Life(t.Context(), "a"); err != nil || life != facade.Alive {
					t.Errorf("%v, %v", life, err)
				}
			})
		}
		<-gate.Arrived()
		synctest.Wait()
		for _, call := range f.Calls() {
			if !call.End.IsZero() || !strings.Contains(call.String(), "under way") {
				t.Errorf("%v is not held", call)
			}
		}
		if _, err := c.Life(t.Context(), "b"); err != nil {
			t.Error(err)
		}
		if n := f.Peak("a"); n != 3 {
			t.Errorf("Peak(a) = %d", n)
		}
		if n := f.Peak(""); n != 4 {
			t.Errorf("Peak() = %d", n)
		}
		gate.Release()
		gate.Release()
		wg.Wait()
		if _, err := c.Life(t.Context(), "a"); err != nil {
			t.Errorf("through an open gate: %v", err)
		}
	})
}

func TestCancelledCallsDoNothing(t *testing.T) {
	f, c, m := world("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pw := []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}}
	for name, call := range map[string]func() error{
		"WatchApplications":        func() error { _, err := c.WatchApplications(ctx); return err },
		"WatchProvisioning":        func() error { _, err := c.WatchProvisioning(ctx); return err },
		"Life":                     func() error { _, err := c.Life(ctx, "a"); return err },
		"CharmInfo":                func() error { _, err := c.CharmInfo(ctx, "a"); return err },
		"OperatorProvisioningInfo": func() error { _, err := c.OperatorProvisioningInfo(ctx, "a"); return err },
		"SetPasswords":             func() error { _, err := c.SetPasswords(ctx, pw); return err },
		"ApplicationsInfo":         func() error { _, err := c.ApplicationsInfo(ctx, []string{"a"}); return err },
		"IssueOperatorCertificate": func() error { _, err := c.IssueOperatorCertificate(ctx, "a"); return err },
		"SetProvisioningStatus":    func() error { return c.SetProvisioningStatus(ctx, "a", facade.StatusError, "m") },
		"OperatorExists":           func() error { _, err := m.OperatorExists(ctx, "a"); return err },
		"Operator":                 func() error { _, err := m.Operator(ctx, "a"); return err },
		"EnsureOperator":           func() error { return m.EnsureOperator(ctx, "a", "/data", config("1")) },
		"StageOperator":            func() error { _, err := m.StageOperator(ctx, "a", "/data", config("1")); return err },
		"DeleteOperator":           func() error { return m.DeleteOperator(ctx, "a") },
		"Operators":                func() error { _, err := m.Operators(ctx); return err },
		"WatchOperators":           func() error { _, err := m.WatchOperators(ctx); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		last := f.Calls()[len(f.Calls())-1]
		if last.Method != name || last.Acted {
			t.Errorf("%s: recorded %+v", name, last)
		}
	}
	if _, ok := c.Password("a"); ok || m.Writes("a") != 0 || c.Status("a").Changes != 0 {
		t.Error("something was done")
	}
}

func TestPanicsAreRecorded(t *testing.T) {
	for _, act := range []fakes.Extent{fakes.Nothing, fakes.Fully} {
		f, _, m := world()
		f.Add(fakes.Rule{Effect: fakes.Effect{Panic: "told to", Act: act}})
		func() {
			defer func() {
				if v := recover(); v != "told to" {
					t.Errorf("recovered %v", v)
				}
			}()
			_ = m.EnsureOperator(t.Context(), "a", "/data", config("1"))
		}()
		if got := m.State("a").Exists; got != (act == fakes.Fully) {
			t.Errorf("act %v: exists %t", act, got)
		}
		if call := f.Calls()[0]; call.Err == nil || call.End.IsZero() {
			t.Errorf("recorded %+v", call)
		}
		if err := m.EnsureOperator(t.Context(), "a", "/data", config("1")); err != nil {
			t.Errorf("the next call: %v", err)
		}
	}
}

func TestAnswersCanBeNonsense(t *testing.T) {
	f, c, m := world("a", "b")
	f.Add(
		fakes.Rule{Method: "Life", Effect: fakes.Effect{Answer: fakes.Return(facade.Life("undead"))}},
		fakes.Rule{Method: "Operator", Effect: fakes.Effect{Answer: fakes.Return(nil)}},
		fakes.Rule{Method: "WatchApplications", Effect: fakes.Effect{Answer: fakes.Return(nil)}},
		fakes.Rule{Method: "SetPasswords", Effect: fakes.Effect{Answer: fakes.Short[error]()}},
		fakes.Rule{Method: "SetPasswords", Effect: fakes.Effect{Answer: fakes.Return(nil)}},
		fakes.Rule{Method: "ApplicationsInfo", Effect: fakes.Effect{Answer: fakes.Long[facade.ApplicationInfo]()}},
		fakes.Rule{Method: "ApplicationsInfo", Effect: fakes.Effect{Answer: fakes.Reversed[facade.ApplicationInfo]()}},
		fakes.Rule{Method: "OperatorProvisioningInfo", Effect: fakes.Effect{
			Answer: fakes.Alter(func(i facade.OperatorProvisioningInfo) facade.OperatorProvisioningInfo {
				i.APIAddresses = []string{"no-port"}
				return i
			}),
		}},
	)
	ctx := t.Context()
	if life, err := c.Life(ctx, "a"); life != "undead" || err != nil {
		t.Errorf("Life = %v, %v", life, err)
	}
	if err := m.EnsureOperator(ctx, "a", "/data", config("1")); err != nil {
		t.Fatal(err)
	}
	if op, err := m.Operator(ctx, "a"); op != nil || err != nil {
		t.Errorf("Operator = %v, %v", op, err)
	}
	if w, err := c.WatchApplications(ctx); w != nil || err != nil {
		t.Errorf("WatchApplications = %v, %v", w, err)
	}
	pws := []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}, {Name: "b", Password: facade.NewSecret("2")}}
	for _, want := range []int{1, 0} {
		if results, err := c.SetPasswords(ctx, pws); len(results) != want || err != nil {
			t.Errorf("SetPasswords = %v, %v", results, err)
		}
	}
	infos, err := c.ApplicationsInfo(ctx, []string{"a", "b"})
	if len(infos) != 3 || err != nil || infos[2].Name != "" {
		t.Errorf("ApplicationsInfo = %v, %v", infos, err)
	}
	infos, err = c.ApplicationsInfo(ctx, []string{"a", "b"})
	if err != nil || infos[0].Name != "b" || infos[1].Name != "a" {
		t.Errorf("ApplicationsInfo = %v, %v", infos, err)
	}
	if info, err := c.OperatorProvisioningInfo(ctx, "a"); err != nil || info.Validate() == nil {
		t.Errorf("OperatorProvisioningInfo = %v, %v", info, err)
	}
	// The nonsense is in the answer, not in the state.
	if info, err := c.OperatorProvisioningInfo(ctx, "a"); err != nil || info.Validate() != nil {
		t.Errorf("OperatorProvisioningInfo = %v, %v", info, err)
	}
	if list := fakes.Short[error]()([]error{}).([]error); len(list) != 0 {
		t.Errorf("Short of nothing is %v", list)
	}
}

func TestAnswersOfAnotherTypePanic(t *testing.T) {
	for name, answer := range map[string]func(any) any{
		"Return": fakes.Return(7),
		"Alter":  fakes.Alter(func(n int) int { return n }),
	} {
		f, c, _ := world("a")
		f.Add(fakes.Rule{Effect: fakes.Effect{Answer: answer}})
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "facade.Life") {
					t.Errorf("%s: recovered %v", name, v)
				}
			}()
			_, _ = c.Life(t.Context(), "a")
			t.Errorf("%s: no panic", name)
		}()
	}
}

func TestItemsOfABulkCallFailAlone(t *testing.T) {
	f, c, _ := world("a", "b", "c", "d")
	f.Add(
		fakes.Rule{Method: "SetPasswords", Key: "b", Effect: fakes.Effect{Err: boom}},
		fakes.Rule{Method: "SetPasswords", Key: "c", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}},
		fakes.Rule{Method: "ApplicationsInfo", Key: "d", Effect: fakes.Effect{Err: boom}},
		fakes.Rule{Method: "ApplicationsInfo", Key: "a", Effect: fakes.Effect{Answer: fakes.Return(facade.ApplicationInfo{Name: "z"})}},
	)
	var pws []facade.ApplicationPassword
	for _, app := range []string{"a", "b", "c", "gone"} {
		pws = append(pws, facade.ApplicationPassword{Name: app, Password: facade.NewSecret(app)})
	}
	results, err := c.SetPasswords(t.Context(), pws)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, boom, boom, errors.NotFound} {
		if !errors.Is(results[i], want) {
			t.Errorf("result of %s: %v, want %v", pws[i].Name, results[i], want)
		}
	}
	for app, want := range map[string]bool{"a": true, "b": false, "c": true} {
		if _, ok := c.Password(app); ok != want {
			t.Errorf("password of %s set: %t", app, ok)
		}
	}
	infos, err := c.ApplicationsInfo(t.Context(), []string{"a", "b", "c", "d", "gone"})
	if err != nil {
		t.Fatal(err)
	}
	if infos[0].Name != "z" || infos[1].Life != facade.Alive || infos[1].Format != 1 ||
		!errors.Is(infos[3].Err, boom) || !errors.Is(infos[4].Err, errors.NotFound) {
		t.Errorf("infos %+v", infos)
	}
	if n := f.Count("SetPasswords", "b"); n != 1 {
		t.Errorf("Count(b) = %d", n)
	}
	if s := f.Calls()[0].String(); !strings.Contains(s, `SetPasswords(["a" "b" "c" "gone"])`) {
		t.Errorf("recorded %s", s)
	}
}

func TestBulkCallFailsAsAWhole(t *testing.T) {
	f, c, _ := world("a")
	f.Fail("", "", boom)
	if results, err := c.SetPasswords(t.Context(), []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}}); !errors.Is(err, boom) || results != nil {
		t.Errorf("%v, %v", results, err)
	}
	if results, err := c.SetPasswords(t.Context(), nil); err != nil || len(results) != 0 {
		t.Errorf("of nothing: %v, %v", results, err)
	}
}

func TestHookDecidesWhereNoRuleDoes(t *testing.T) {
	f, c, m := world("a", "b")
	var asked []string
	f.OnCall(func(call fakes.Call) fakes.Effect {
		asked = append(asked, fmt.Sprintf("%s/%s/%d/%t", call.Method, call.Key, call.N, call.Item))
		if call.Key == "b" {
			return fakes.Effect{Err: boom}
		}
		return fakes.Effect{}
	})
	f.Fail("Life", "a", errors.Timeout)
	ctx := t.Context()
	_, ruled := c.Life(ctx, "a")
	_, a := c.Life(ctx, "a")
	_, b := c.Life(ctx, "b")
	results, whole := c.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret("1")}, {Name: "b", Password: facade.NewSecret("1")}})
	if !errors.Is(ruled, errors.Timeout) || a != nil || !errors.Is(b, boom) || whole != nil {
		t.Errorf("%v, %v, %v, %v", ruled, a, b, whole)
	}
	if results[0] != nil || !errors.Is(results[1], boom) {
		t.Errorf("results %v", results)
	}
	want := []string{"Life/a/2/false", "Life/b/1/false", "SetPasswords//1/false", "SetPasswords/a/1/true", "SetPasswords/b/1/true"}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	f.OnCall(nil)
	if _, err := m.OperatorExists(ctx, "b"); err != nil {
		t.Errorf("without the hook: %v", err)
	}
}

func TestCallsAreRecordedInOrderWithoutSecrets(t *testing.T) {
	f, c, m := world("a")
	const canary = "canary-7f2a"
	cfg := config(canary)
	ctx := t.Context()
	_, _ = c.Life(ctx, "a")
	_ = m.EnsureOperator(ctx, "a", "/data", cfg)
	cfg.Version = "changed by the caller"
	_, _ = c.SetPasswords(ctx, []facade.ApplicationPassword{{Name: "a", Password: facade.NewSecret(canary)}})
	_, _ = c.Life(ctx, "gone")

	calls := f.Calls()
	var order []string
	for i, call := range calls {
		order = append(order, call.Method)
		if call.Seq != i+1 {
			t.Errorf("call %d has Seq %d", i, call.Seq)
		}
		if text := fmt.Sprintf("%v %+v %#v", call, call, call.Args); strings.Contains(text, canary) {
			t.Errorf("the secret is in %s", text)
		}
	}
	if want := []string{"Life", "EnsureOperator", "SetPasswords", "Life"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if got := calls[3].String(); !strings.HasPrefix(got, "4 Life(gone): ") {
		t.Errorf("String() = %q", got)
	}
	if f.Count("Life", "a") != 1 || f.Count("Life", "gone") != 1 || f.Count("Life", "b") != 0 {
		t.Error("miscounted")
	}
	f.Reset()
	if len(f.Calls()) != 0 || f.Count("Life", "a") != 0 || f.Peak("") != 0 {
		t.Error("Reset left something")
	}
	if _, err := c.Life(ctx, "a"); err != nil || f.Calls()[0].Seq != 1 {
		t.Error("numbering did not start again")
	}
}

func TestHooksMayUseTheFakes(t *testing.T) {
	f, c, m := world("a")
	f.Add(
		fakes.Rule{Method: "Life", Effect: fakes.Effect{Then: func() { c.SetLife("a", facade.Dying) }}},
		fakes.Rule{Method: "CharmInfo", Effect: fakes.Effect{Before: func() { c.RemoveApplication("a") }}},
		fakes.Rule{Method: "EnsureOperator", Effect: fakes.Effect{Then: func() { m.Vanish("a") }}},
	)
	ctx := t.Context()
	for _, want := range []facade.Life{facade.Alive, facade.Dying} {
		if life, err := c.Life(ctx, "a"); err != nil || life != want {
			t.Errorf("Life = %v, %v, want %v", life, err, want)
		}
	}
	if _, err := c.CharmInfo(ctx, "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("CharmInfo: %v", err)
	}
	if err := m.EnsureOperator(ctx, "a", "/data", config("1")); err != nil || m.Config("a") != nil {
		t.Errorf("EnsureOperator: %v", err)
	}
}
