package fakes_test

import (
	"testing"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestLostReplyOfSetPasswordsSetsThem(t *testing.T) {
	f := fakes.NewFaults(clock.WallClock)
	c := fakes.NewController(f)
	c.AddApplication("a", fakes.App{})
	f.Add(fakes.Rule{Method: "SetPasswords", Effect: fakes.Effect{Err: errors.Timeout, Act: fakes.Fully}})
	s := facade.NewSecret("x")
	_, err := c.SetPasswords(t.Context(), []facade.ApplicationPassword{{Name: "a", Password: s}})
	if !errors.Is(err, errors.Timeout) {
		t.Errorf("error %v", err)
	}
	if err := c.Login("a", s); err != nil {
		t.Error(err)
	}
}
