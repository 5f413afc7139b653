package embedding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestAnOutageOfAnHourIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// All of it is made in the bubble: there clock.WallClock is virtual.
		faults := fakes.NewFaults(clock.WallClock)
		controller := fakes.NewController(faults)
		manager := fakes.NewManager(faults)
		controller.AddApplication("mysql", fakes.App{})
		outage := time.Now().Add(time.Hour)
		faults.OnCall(func(call fakes.Call) fakes.Effect {
			if call.Method == "EnsureOperator" && time.Now().Before(outage) {
				return fakes.Effect{Err: errors.New("no route to host")}
			}
			return fakes.Effect{}
		})

		w, err := provisioner.New(provisioner.Config{
			Facade: controller, OperatorManager: manager,
			Agent: fakes.NewAgent(controller.CACert()), ModelUUID: fakes.ModelUUID, Clock: clock.WallClock,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(w)

		time.Sleep(time.Hour + provisioner.DefaultMaxBackoff) // takes no time
		synctest.Wait()
		if !manager.State("mysql").Exists {
			t.Error("there is no operator after the outage")
		}
	})
}
