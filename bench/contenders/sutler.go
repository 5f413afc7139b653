package contenders

import (
	"github.com/juju/clock"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/provisioner"
)

// Sutler is the operator provisioner of this project with its defaults.
type Sutler struct{}

// Name is part of [Contender].
func (Sutler) Name() string { return "sutler" }

// Start is part of [Contender].
func (Sutler) Start(w World) (worker.Worker, error) {
	w, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	return provisioner.New(provisioner.Config{
		Facade:          w.Facade,
		OperatorManager: w.Manager,
		Agent:           w.Agent,
		ModelUUID:       w.ModelUUID,
		Clock:           clock.WallClock,
		Concurrency:     w.Workers,
		CallTimeout:     w.CallTimeout,
		ResyncInterval:  w.Resync,
	})
}
