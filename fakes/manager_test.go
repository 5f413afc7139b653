package fakes_test

import (
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// Whether the manager keeps the rules of its interface is for the suite in
// operator/managertest, which it passes; these are about the rest of it.

func config(content string) *operator.Config {
	return &operator.Config{
		Version:      "2.9.49",
		AgentConf:    facade.NewSecret("agent " + content),
		OperatorInfo: facade.NewSecret("info " + content),
	}
}

// ensure makes the operator be as cfg says, whatever was stored.
func ensure(t *testing.T, m *fakes.Manager, app string, cfg *operator.Config) {
	t.Helper()
	if stored := m.Config(app); stored != nil {
		cfg.Generation = stored.Generation
	}
	if err := m.EnsureOperator(t.Context(), app, "/data", cfg); err != nil {
		t.Fatal(err)
	}
}

func TestWritesAndRestartsAreCounted(t *testing.T) {
	_, _, m := world()
	steps := []struct {
		name             string
		do               func()
		writes, restarts int
	}{
		{"made", func() { ensure(t, m, "a", config("1")) }, 1, 0},
		{"the same", func() { ensure(t, m, "a", config("1")) }, 1, 0},
		{"files", func() { ensure(t, m, "a", config("2")) }, 2, 1},
		{"image", func() {
			cfg := config("2")
			cfg.ImageDetails = facade.ImageDetails{RegistryPath: "x", Password: facade.NewSecret("p")}
			ensure(t, m, "a", cfg)
			ensure(t, m, "a", cfg)
		}, 3, 2},
		{"password of the image", func() {
			cfg := config("2")
			cfg.ImageDetails = facade.ImageDetails{RegistryPath: "x", Password: facade.NewSecret("q")}
			ensure(t, m, "a", cfg)
		}, 4, 3},
		{"storage and tags", func() {
			cfg := config("2")
			cfg.CharmStorage = &facade.CharmStorage{Provider: "p", Attributes: map[string]string{}}
			cfg.ResourceTags = map[string]string{"a": "b"}
			ensure(t, m, "a", cfg)
			cfg = cfg.Clone()
			cfg.CharmStorage.Attributes = nil
			ensure(t, m, "a", cfg)
		}, 5, 4},
		{"agent path", func() {
			if err := m.EnsureOperator(t.Context(), "a", "/other", m.Config("a")); err != nil {
				t.Fatal(err)
			}
		}, 6, 5},
		{"staged", func() {
			cfg := config("3")
			cfg.Generation = m.Config("a").Generation
			if _, err := m.StageOperator(t.Context(), "a", "/other", cfg); err != nil {
				t.Fatal(err)
			}
		}, 7, 5},
		{"deleted and made again", func() {
			if err := m.DeleteOperator(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			ensure(t, m, "a", config("3"))
		}, 8, 5},
	}
	for _, step := range steps {
		step.do()
		if w, r := m.Writes("a"), m.Restarts("a"); w != step.writes || r != step.restarts {
			t.Errorf("%s: %d writes and %d restarts, want %d and %d", step.name, w, r, step.writes, step.restarts)
		}
	}
	if m.Writes("b") != 0 || m.Restarts("b") != 0 || m.Conflicts("b") != 0 {
		t.Error("counted for an application of which there was nothing")
	}
	if err := m.CheckHistory(); err != nil {
		t.Error(err)
	}
}

func TestConflictsAreCountedAndHistoryIsKept(t *testing.T) {
	_, _, m := world()
	ensure(t, m, "a", config("1"))
	first := m.Config("a").Generation
	ensure(t, m, "a", config("2"))
	for _, shown := range []string{"", first} {
		cfg := config("3")
		cfg.Generation = shown
		if err := m.EnsureOperator(t.Context(), "a", "/data", cfg); !errors.Is(err, operator.ErrConflict) {
			t.Errorf("shown %q: %v", shown, err)
		}
	}
	// A configuration that was shown and is gone is another one, too.
	m.Vanish("a")
	cfg := config("3")
	cfg.Generation = first
	if err := m.EnsureOperator(t.Context(), "a", "/data", cfg); !errors.Is(err, operator.ErrConflict) {
		t.Errorf("after it vanished: %v", err)
	}
	if n := m.Conflicts("a"); n != 3 {
		t.Errorf("%d conflicts", n)
	}
	h := m.History("a")
	if len(h) != 2 || h[0].Replaced != "" || h[1].Shown != first || h[1].Replaced != first ||
		h[1].Generation == first || h[1].Method != "EnsureOperator" || h[1].SameFiles {
		t.Errorf("history %+v", h)
	}
}

func TestDeletionTakesAsLongAsSaid(t *testing.T) {
	tests := []struct {
		name  string
		t     fakes.Termination
		looks int
		wait  time.Duration
		gone  bool
	}{
		{"at once", fakes.Termination{}, 0, 0, true},
		{"a while, too early", fakes.Termination{For: time.Minute}, 3, time.Minute - 1, false},
		{"a while", fakes.Termination{For: time.Minute}, 3, time.Minute, true},
		{"looks, too few", fakes.Termination{Looks: 3}, 1, time.Hour, false},
		{"looks", fakes.Termination{Looks: 3}, 3, 0, true},
		{"for ever", fakes.Termination{Forever: true}, 10, 1000 * time.Hour, false},
		{"for ever, whatever else", fakes.Termination{Forever: true, For: time.Second, Looks: 1}, 10, time.Hour, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, _, m := world()
				m.SetTermination(test.t, "a")
				ensure(t, m, "a", config("1"))
				ensure(t, m, "b", config("1"))
				for _, app := range []string{"a", "a", "b"} {
					if err := m.DeleteOperator(t.Context(), app); err != nil {
						t.Fatal(err)
					}
				}
				if m.State("b") != (operator.State{}) {
					t.Error("another application's deletion takes time")
				}
				for range test.looks {
					state, err := m.OperatorExists(t.Context(), "a")
					if err != nil || !state.Terminating || !state.Exists {
						t.Errorf("while terminating: %+v, %v", state, err)
					}
				}
				time.Sleep(test.wait)
				if !test.gone {
					op, err := m.Operator(t.Context(), "a")
					if err != nil || !op.Dying {
						t.Errorf("Operator = %+v, %v", op, err)
					}
					if err := m.EnsureOperator(t.Context(), "a", "/data", config("2")); !errors.Is(err, errors.NotYetAvailable) {
						t.Errorf("EnsureOperator while terminating: %v", err)
					}
					if _, err := m.StageOperator(t.Context(), "a", "/data", config("2")); !errors.Is(err, errors.NotYetAvailable) {
						t.Errorf("StageOperator while terminating: %v", err)
					}
					m.Finish("a")
				}
				if state := m.State("a"); state != (operator.State{}) || m.Config("a") != nil {
					t.Errorf("in the end: %+v", state)
				}
				m.Finish("a")
				// The end of that deletion is not the end of the next operator.
				ensure(t, m, "a", config("2"))
				time.Sleep(time.Hour)
				if !m.State("a").Exists {
					t.Error("the next operator is gone as well")
				}
			})
		})
	}
}

func TestHalfMadeOperatorsGoAtOnce(t *testing.T) {
	_, _, m := world()
	m.SetTermination(fakes.Termination{Forever: true})
	if _, err := m.StageOperator(t.Context(), "a", "/data", config("1")); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteOperator(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if m.Config("a") != nil {
		t.Error("it is still there")
	}
}

func TestPartsVanish(t *testing.T) {
	_, _, m := world()
	w, err := m.WatchOperators(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-w.Changes()
	tests := []struct {
		name           string
		vanish         func(string)
		found, content bool
	}{
		{"all", m.Vanish, false, false},
		{"operator", m.VanishOperator, true, true},
		{"config", m.VanishConfig, true, false},
	}
	for _, test := range tests {
		ensure(t, m, "a", config("1"))
		next(w)
		test.vanish("a")
		if got := next(w); !slices.Equal(got, []string{"a"}) {
			t.Errorf("%s: event %q", test.name, got)
		}
		if state, err := m.OperatorExists(t.Context(), "a"); err != nil || state != (operator.State{}) {
			t.Errorf("%s: %+v, %v", test.name, state, err)
		}
		op, err := m.Operator(t.Context(), "a")
		if (err == nil) != test.found || !test.found && !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: %v", test.name, err)
		}
		if test.found && op.Config.AgentConf.IsZero() == test.content {
			t.Errorf("%s: config shown: %t", test.name, test.content)
		}
		if got := slices.Contains(m.Apps(), "a"); got != test.found {
			t.Errorf("%s: listed %t", test.name, got)
		}
		test.vanish("a") // again, of what is not there
		m.VanishOperator("a")
		m.VanishConfig("a")
		if len(m.Apps()) != 0 {
			t.Errorf("%s: left %q", test.name, m.Apps())
		}
	}
}

func TestReadsLagBehindWrites(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, m := world()
		exists := func() bool {
			t.Helper()
			state, err := m.OperatorExists(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			return state.Exists
		}
		m.SetStale(2, 0)
		ensure(t, m, "a", config("1"))
		if first, second, third := exists(), exists(), exists(); first || second || !third {
			t.Error("not stale for two reads")
		}
		ensure(t, m, "a", config("2"))
		op, err := m.Operator(t.Context(), "a")
		if err != nil || !op.Config.AgentConf.Equal(config("1").AgentConf) {
			t.Errorf("first read: %v", err)
		}
		clear(op.Config.ResourceTags)
		op.Config.AgentConf = facade.Secret{}
		if op, err := m.Operator(t.Context(), "a"); err != nil || !op.Config.AgentConf.Equal(config("1").AgentConf) {
			t.Errorf("second read: %v", err)
		}
		if op, err := m.Operator(t.Context(), "a"); err != nil || !op.Config.AgentConf.Equal(config("2").AgentConf) {
			t.Errorf("third read: %v", err)
		}

		m.SetStale(0, time.Minute)
		m.Vanish("a")
		if !exists() || m.State("a").Exists {
			t.Error("not stale, or State is")
		}
		time.Sleep(time.Minute - 1)
		if !exists() {
			t.Error("not stale for a minute")
		}
		time.Sleep(time.Nanosecond)
		if exists() {
			t.Error("stale for more than a minute")
		}
	})
}

func TestManagerWithoutGenerations(t *testing.T) {
	_, _, m := world()
	m.HideGenerations()
	for _, content := range []string{"1", "2", "1"} {
		if err := m.EnsureOperator(t.Context(), "a", "/data", config(content)); err != nil {
			t.Fatal(err)
		}
		op, err := m.Operator(t.Context(), "a")
		if err != nil || op.Config.Generation != "" || !op.Config.AgentConf.Equal(config(content).AgentConf) {
			t.Errorf("%+v, %v", op, err)
		}
	}
	if err := m.CheckHistory(); err != nil {
		t.Error(err)
	}
}

func TestOperatorsOwnFileIsKept(t *testing.T) {
	_, _, m := world()
	if !m.AgentConf("a").IsZero() || m.Running("a") != nil {
		t.Error("there is a file of nothing")
	}
	m.WriteAgentConf("a", config("lost").AgentConf)
	ensure(t, m, "a", config("1"))
	ensure(t, m, "a", config("2"))
	if !m.AgentConf("a").Equal(config("2").AgentConf) {
		t.Error("an operator that wrote nothing does not see the update")
	}
	own := facade.NewSecret("own")
	m.WriteAgentConf("a", own)
	ensure(t, m, "a", config("3"))
	if !m.AgentConf("a").Equal(own) || !m.Running("a").AgentConf.Equal(config("3").AgentConf) {
		t.Error("the operator's own file was replaced, or the update did not reach it")
	}
	if err := m.DeleteOperator(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	ensure(t, m, "a", config("4"))
	if !m.AgentConf("a").Equal(config("4").AgentConf) {
		t.Error("the next operator has its predecessor's file")
	}
}

func TestStatusIsShownAndTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, m := world()
		m.SetStatus("a", operator.Status{Phase: operator.Terminated})
		ensure(t, m, "a", config("1"))
		op, err := m.Operator(t.Context(), "a")
		if err != nil || op.Status.Phase != operator.Running || !op.Status.Since.Equal(time.Now()) {
			t.Errorf("%+v, %v", op, err)
		}
		w, err := m.WatchOperators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := next(w); !slices.Equal(got, []string{"a"}) {
			t.Errorf("baseline %q", got)
		}
		want := operator.Status{Phase: operator.Waiting, Message: "no room"}
		m.SetStatus("a", want)
		if op, err := m.Operator(t.Context(), "a"); err != nil || op.Status != want {
			t.Errorf("%+v, %v", op, err)
		}
		if got := next(w); !slices.Equal(got, []string{"a"}) {
			t.Errorf("event %q", got)
		}
		ensure(t, m, "a", config("1"))
		if got := next(w); got != nil {
			t.Errorf("event %q of a write that changed nothing", got)
		}
		m.Watchers()[0].Close()
		if _, ok := <-w.Changes(); ok {
			t.Error("the watcher is not closed")
		}
		w.Kill()
	})
}

func TestEndOfADeletionIsTold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, _, m := world()
		m.SetTermination(fakes.Termination{For: time.Minute})
		ensure(t, m, "a", config("1"))
		w, err := m.WatchOperators(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		<-w.Changes()
		if err := m.DeleteOperator(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		<-w.Changes()
		start := time.Now()
		<-w.Changes()
		if took := time.Since(start); took != time.Minute {
			t.Errorf("told after %v", took)
		}
	})
}

func TestGlanceShowsNoFilesAndKeepUsesThoseStored(t *testing.T) {
	faults, _, m := world()
	keep := func(generation string, change func(*operator.Config)) error {
		cfg := &operator.Config{Version: "2.9.49", Generation: generation}
		change(cfg)
		return m.KeepOperator(t.Context(), "a", "/data", cfg)
	}
	same := func(*operator.Config) {}
	if err := keep("1", same); !errors.Is(err, operator.ErrConflict) {
		t.Errorf("kept what is not there: %v", err)
	}
	if _, err := m.GlanceOperator(t.Context(), "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("glance at what is not there: %v", err)
	}
	ensure(t, m, "a", config("1"))
	op, err := m.GlanceOperator(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	stored := m.Config("a")
	generation := stored.Generation
	if !op.Config.AgentConf.IsZero() || !op.Config.OperatorInfo.IsZero() || op.Config.Generation != generation || op.Config.Version != "2.9.49" {
		t.Errorf("a glance shows %+v", op.Config)
	}

	half := func() {
		faults.Add(fakes.Rule{Method: "KeepOperator", Effect: fakes.Effect{Err: errors.New("crash"), Act: fakes.Half}})
	}
	steps := []struct {
		name       string
		generation string
		change     func(*operator.Config)
		before     func()
		kind       error
		writes     int
	}{
		{"as it is", generation, same, nil, nil, 1},
		{"vanished", generation, same, func() { m.VanishOperator("a") }, nil, 2},
		{"tags", generation, func(c *operator.Config) { c.ResourceTags = map[string]string{"a": "b"} }, nil, nil, 3},
		{"another generation", "other", func(c *operator.Config) { c.Version = "2.9.50" }, nil, operator.ErrConflict, 3},
		{"files", generation, func(c *operator.Config) { c.AgentConf = stored.AgentConf }, nil, errors.NotValid, 3},
		{"half done", generation, func(c *operator.Config) { c.Version = "2.9.50" }, half, nil, 4},
		{"config vanished", generation, same, func() { m.VanishConfig("a") }, operator.ErrConflict, 4},
		{"being deleted", generation, same, func() {
			ensure(t, m, "a", config("1"))
			m.SetTermination(fakes.Termination{Forever: true})
			if err := m.DeleteOperator(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}, errors.NotYetAvailable, 5},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		err := keep(step.generation, step.change)
		switch {
		case step.name == "half done":
			if running := m.Running("a"); err == nil || running.Version == "2.9.50" || m.Config("a").Version != "2.9.50" {
				t.Errorf("half done: %v, runs %+v", err, running)
			}
		case step.kind == nil && err != nil, !errors.Is(err, step.kind):
			t.Errorf("%s: error %v, want %v", step.name, err, step.kind)
		}
		if n := m.Writes("a"); n != step.writes {
			t.Errorf("%s: %d writes, want %d", step.name, n, step.writes)
		}
		if now := m.Config("a"); now != nil && (!now.AgentConf.Equal(stored.AgentConf) || !now.OperatorInfo.Equal(stored.OperatorInfo)) {
			t.Errorf("%s: other files are stored", step.name)
		}
	}
	if n := m.Conflicts("a"); n != 3 {
		t.Errorf("%d conflicts, want 3", n)
	}
	if n := faults.Count("GlanceOperator", "a"); n != 2 {
		t.Errorf("%d glances were recorded, want 2", n)
	}
	if err := m.CheckHistory(); err != nil {
		t.Error(err)
	}
}
