package fakes_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestAgentIsWhatItIsSetTo(t *testing.T) {
	a := fakes.NewAgent("pem")
	if a.DataDir() == "" || a.LogDir() == "" || a.ControllerUUID() != fakes.ControllerUUID || a.CACert() != "pem" {
		t.Errorf("%q %q %q %q", a.DataDir(), a.LogDir(), a.ControllerUUID(), a.CACert())
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			a.SetDataDir("/d")
			a.SetLogDir("/l")
			a.SetControllerUUID("u")
			a.SetCACert("c")
			_ = a.DataDir() + a.LogDir() + a.ControllerUUID() + a.CACert()
		})
	}
	wg.Wait()
	if got := strings.Join([]string{a.DataDir(), a.LogDir(), a.ControllerUUID(), a.CACert()}, " "); got != "/d /l u c" {
		t.Errorf("got %s", got)
	}
}

func TestLogKeepsEverythingInOrder(t *testing.T) {
	l := fakes.NewLog()
	logger := l.Logger().With("application", "a")
	logger.Log(t.Context(), slog.LevelDebug-100, "very quiet")
	logger.Error("loud", "password", facade.NewSecret("canary"), "text", "in\ntwo lines")
	if lines := l.Lines(); len(lines) != 2 || !strings.Contains(lines[0], "very quiet") || !strings.Contains(lines[1], "loud") {
		t.Errorf("lines %q", lines)
	}
	if lines := l.Lines("loud", "application=a"); len(lines) != 1 {
		t.Errorf("lines %q", lines)
	}
	if lines := l.Lines("loud", "quiet"); len(lines) != 0 {
		t.Errorf("lines %q", lines)
	}
	if strings.Contains(l.Text(), "canary") || !strings.Contains(l.Text(), facade.Redacted) {
		t.Errorf("text %q", l.Text())
	}
}

func TestLogIsSafeForManyGoroutines(t *testing.T) {
	l := fakes.NewLog()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				l.Logger().Info("m")
				_ = l.Text()
			}
		})
	}
	wg.Wait()
	if n := len(l.Lines("msg=m")); n != 160 {
		t.Errorf("%d records", n)
	}
}
