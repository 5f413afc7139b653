package fakes_test

import (
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

func config(content string) *operator.Config {
	return &operator.Config{
		Version:      "2.9.49",
		AgentConf:    facade.NewSecret("agent " + content),
		OperatorInfo: facade.NewSecret("info " + content),
	}
}

func TestManagerMakesShowsAndDeletesAnOperator(t *testing.T) {
	ctx := t.Context()
	m := fakes.NewManager(fakes.NewFaults(clock.WallClock))
	if _, err := m.Operator(ctx, "a"); !errors.Is(err, errors.NotFound) {
		t.Fatalf("before: %v", err)
	}
	if err := m.EnsureOperator(ctx, "a", "/data", config("1")); err != nil {
		t.Fatal(err)
	}
	if err := m.EnsureOperator(ctx, "a", "/data", config("1")); err != nil {
		t.Fatal(err)
	}
	if err := m.EnsureOperator(ctx, "a", "/data", config("2")); !errors.Is(err, operator.ErrConflict) {
		t.Fatalf("blind update: %v", err)
	}
	if n := m.Writes("a"); n != 1 {
		t.Errorf("%d writes", n)
	}
	op, err := m.Operator(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	next := config("2")
	next.Generation = op.Config.Generation
	if err := m.EnsureOperator(ctx, "a", "/data", next); err != nil {
		t.Fatal(err)
	}
	if n := m.Restarts("a"); n != 1 {
		t.Errorf("%d restarts", n)
	}
	if err := m.CheckHistory(); err != nil {
		t.Error(err)
	}
	if err := m.DeleteOperator(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if s, err := m.OperatorExists(ctx, "a"); err != nil || s != (operator.State{}) {
		t.Errorf("after: %+v, %v", s, err)
	}
}
