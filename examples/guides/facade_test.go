package guides_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator/agentconf"
	"github.com/sutler-dev/sutler/provisioner"
)

// views are the facades that a controller of each version has.
func views() map[string]int { return map[string]int{"plain": 1, "full": 2} }

// inBubbles runs the test with each view, in virtual time.
func inBubbles(t *testing.T, test func(t *testing.T, version int)) {
	t.Helper()
	for name, version := range views() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, version) })
		})
	}
}

func TestFacadeServesAProvisioner(t *testing.T) {
	inBubbles(t, func(t *testing.T, version int) {
		controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
		manager := fakes.NewManager(fakes.NewFaults(clock.WallClock))
		log := fakes.NewLog()
		private := fakes.Info()
		private.ImageDetails.Username = "puller"
		private.ImageDetails.Password = facade.NewSecret("canary-of-the-registry")
		controller.AddApplication("mysql", fakes.App{Info: private})
		controller.AddApplication("sidecar", fakes.App{Charm: fakes.Charm(2)})

		w, err := provisioner.New(provisioner.Config{
			Facade:          guides.Connected(newWire(controller), version),
			OperatorManager: manager,
			Agent:           fakes.NewAgent(controller.CACert()),
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
			Logger:          log.Logger(),
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		controller.AddApplication("redis", fakes.App{})
		synctest.Wait()

		if got := manager.Apps(); !slices.Equal(got, []string{"mysql", "redis"}) {
			t.Errorf("operators of %q", got)
		}
		if !manager.Config("mysql").ImageDetails.Password.Equal(private.ImageDetails.Password) {
			t.Error("the registry's password was lost on the way")
		}
		for _, app := range manager.Apps() {
			conf, err := agentconf.Parse([]byte(manager.Config(app).AgentConf.Reveal()))
			if err != nil {
				t.Fatal(err)
			}
			if err := controller.Login(app, conf.Password()); err != nil {
				t.Error(err)
			}
		}
		if status := controller.Status("mysql").Status; version > 1 && status != facade.StatusProvisioned {
			t.Errorf("the status is %q", status)
		}

		controller.RemoveApplication("mysql")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := manager.Apps(); !slices.Equal(got, []string{"redis"}) {
			t.Errorf("operators of %q after a removal", got)
		}
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
		if strings.Contains(log.Text(), "canary") {
			t.Error("a secret is in the log")
		}
	})
}

func TestFacadeTellsAbsenceByKind(t *testing.T) {
	inBubbles(t, func(t *testing.T, version int) {
		controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
		controller.AddApplication("mysql", fakes.App{})
		controller.RemoveCharm("mysql")
		f := guides.Connected(newWire(controller), version)
		ctx := t.Context()

		notFound := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, errors.NotFound) {
				t.Errorf("%s: error %v, want errors.NotFound", what, err)
			}
		}
		_, err := f.Life(ctx, "gone")
		notFound("Life", err)
		_, err = f.CharmInfo(ctx, "gone")
		notFound("CharmInfo", err)
		_, err = f.CharmInfo(ctx, "mysql")
		notFound("CharmInfo without a charm", err)
		_, err = f.OperatorProvisioningInfo(ctx, "gone")
		notFound("OperatorProvisioningInfo", err)
		_, err = f.IssueOperatorCertificate(ctx, "gone")
		notFound("IssueOperatorCertificate", err)

		// One of several: a result of its own, and no error of the call.
		results, err := f.SetPasswords(ctx, []facade.ApplicationPassword{
			{Name: "gone", Password: facade.NewSecret("a")},
			{Name: "mysql", Password: facade.NewSecret("b")},
		})
		if err != nil || len(results) != 2 || results[1] != nil {
			t.Fatalf("SetPasswords = %v, %v", results, err)
		}
		notFound("SetPasswords", results[0])
		if err := controller.Login("mysql", facade.NewSecret("b")); err != nil {
			t.Error(err)
		}

		if bulk, ok := f.(facade.BulkApplications); ok {
			infos, err := bulk.ApplicationsInfo(ctx, []string{"gone", "mysql"})
			if err != nil || len(infos) != 2 {
				t.Fatalf("ApplicationsInfo = %v, %v", infos, err)
			}
			notFound("ApplicationsInfo", infos[0].Err)
			notFound("ApplicationsInfo without a charm", infos[1].FormatErr)
			if infos[1].Err != nil || infos[1].Life != facade.Alive {
				t.Errorf("ApplicationsInfo = %+v", infos[1])
			}
		}
	})
}

func TestLostConnectionEndsWatchersAndTheProvisioner(t *testing.T) {
	inBubbles(t, func(t *testing.T, version int) {
		controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
		conn := newWire(controller)
		f := guides.Connected(conn, version)
		watcher, err := f.WatchApplications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w, err := provisioner.New(provisioner.Config{
			Facade:          f,
			OperatorManager: fakes.NewManager(fakes.NewFaults(clock.WallClock)),
			Agent:           fakes.NewAgent(controller.CACert()),
			ModelUUID:       fakes.ModelUUID,
			Clock:           clock.WallClock,
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		conn.cut()
		for what, err := range map[string]error{"the watcher": watcher.Wait(), "the provisioner": w.Wait()} {
			if !errors.Is(err, facade.ErrConnectionLost) {
				t.Errorf("%s ended with %v", what, err)
			}
		}
		if _, err := f.Life(t.Context(), "mysql"); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("Life = %v", err)
		}
		if _, err := f.WatchApplications(t.Context()); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("WatchApplications = %v", err)
		}
	})
}

func TestWatcherSendsABaselineAndMergesWhatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
		f := guides.NewFacade(newWire(controller))
		empty, err := f.WatchApplications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if names := <-empty.Changes(); len(names) != 0 {
			t.Errorf("baseline %q of an empty model", names)
		}
		empty.Kill()
		if err := empty.Wait(); err != nil {
			t.Errorf("a watcher that was killed ended with %v", err)
		}

		controller.AddApplication("mysql", fakes.App{})
		w, err := f.WatchApplications(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"redis", "etcd", "redis"} {
			controller.AddApplication(name, fakes.App{})
			synctest.Wait()
		}
		got := slices.Sorted(slices.Values(<-w.Changes()))
		if !slices.Equal(got, []string{"etcd", "mysql", "redis"}) {
			t.Errorf("first event %q", got)
		}
		if first, second := w.Changes(), w.Changes(); first != second {
			t.Error("Changes returns another channel each time")
		}
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestWithoutABaselineThereIsNoWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controller := fakes.NewController(fakes.NewFaults(clock.WallClock))
		conn := newWire(controller)
		// The first is the subscription, the second the list.
		conn.controller.Faults().Add(fakes.Rule{
			Method: "WatchApplications", Skip: 1, Effect: fakes.Effect{Err: errors.New("busy")},
		})
		w, err := guides.NewFacade(conn).WatchApplications(t.Context())
		if w != nil || err == nil {
			t.Errorf("WatchApplications = %v, %v", w, err)
		}
		if n := len(conn.controller.Watchers("WatchApplications")); n != 0 {
			t.Errorf("%d subscriptions left", n)
		}
	})
}
