package container

import (
	"context"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Initialiser prepares this machine for containers of one type.
type Initialiser interface {
	// Initialise installs and configures what is needed. It probes first
	// and changes only what is not already so: running it twice, or after a
	// crash in the middle, is harmless. It is called with the machine lock
	// held. It returns errors.NotSupported when this machine can never have
	// containers of the type.
	Initialise(ctx context.Context) error
}

// SettingsInitialiser is an optional interface of an [Initialiser] that has the
// controller's settings to follow, such as where packages come from.
type SettingsInitialiser interface {
	// WithSettings returns an initialiser that prepares the machine by the
	// settings, and changes nothing by itself. errors.NotValid says that they
	// are wrong, and has them read again; errors.NotSupported gives the type
	// up. It is called before every attempt.
	WithSettings(settings facade.ContainerManagerConfig) (Initialiser, error)
}

// InstanceID is a back end's own name for an instance.
type InstanceID string

// Broker makes and removes instances of one type on this machine, for one
// model.
type Broker interface {
	// StartInstance makes the container's instance and starts it. What a
	// call that was interrupted left of an instance of that id it finishes
	// or replaces; for one that is already running it returns what the first
	// call returned, and makes no second one.
	StartInstance(ctx context.Context, params StartParams) (StartResult, error)

	// StopInstances stops and removes instances: one result per id, in the
	// same order. One that is not there is success.
	StopInstances(ctx context.Context, ids ...InstanceID) []error

	// AllInstances returns the instances that this back end made on this
	// machine for this model, running or not, half made or not, and no
	// others.
	AllInstances(ctx context.Context) ([]Instance, error)
}

// StartParams is what an instance is made from.
type StartParams struct {
	// ContainerID is the container's, such as "0/lxd/1".
	ContainerID string
	// Info is the controller's part. Its user data is complete, the nonce
	// included; its tags are to be put on the instance where the back end
	// has such a thing.
	Info facade.ContainerProvisioningInfo
	// Interfaces are those that the container is to have; one without a
	// Parent is put on the back end's default bridge.
	Interfaces []facade.NetworkInterface
}

// Validate returns errors.NotValid, naming the field.
func (p StartParams) Validate() error {
	if _, err := ParseID(p.ContainerID); err != nil {
		return errors.Annotate(err, "ContainerID")
	}
	if err := p.Info.Validate(); err != nil {
		return errors.Annotate(err, "Info")
	}
	for n, i := range p.Interfaces {
		if err := i.Validate(); err != nil {
			return errors.Annotatef(err, "Interfaces[%d]", n)
		}
	}
	return nil
}

// StartResult is what there is of a started instance.
type StartResult struct {
	InstanceID InstanceID
	Hardware   facade.Hardware
	// Interfaces are those that it has.
	Interfaces []facade.NetworkInterface
}

// Instance is one that a broker knows.
type Instance struct {
	ID InstanceID
	// ContainerID is the container that it was made for.
	ContainerID string
	// Running tells whether it is up.
	Running bool
	// Status is the back end's own word for its state, for people.
	Status string
}

// Backend is what a host offers for one type of container.
type Backend struct {
	// Initialiser prepares the machine.
	Initialiser Initialiser
	// NewBroker returns the broker. It is called once the machine is
	// prepared and not before, since until then there may be nothing to
	// connect to; and not again once it succeeded: to connect anew when a
	// daemon was restarted is the broker's business. The settings are the
	// controller's for the type; what else the broker needs, such as the
	// model's UUID, its host gives it. errors.NotValid says that the
	// settings are wrong, and has them read again; errors.NotSupported gives
	// the type up. The machine lock is not held.
	NewBroker func(ctx context.Context, settings facade.ContainerManagerConfig) (Broker, error)
}

// Validate returns errors.NotValid, naming the field.
func (b Backend) Validate() error {
	switch {
	case b.Initialiser == nil:
		return errors.NotValidf("nil Initialiser")
	case b.NewBroker == nil:
		return errors.NotValidf("nil NewBroker")
	}
	return nil
}
