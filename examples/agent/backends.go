package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/examples/agent/internal/box"
	"github.com/sutler-dev/sutler/facade"
)

// probeTimeout is how long a back end may take to say whether it can be had: a
// host that does not answer holds up no start for good. libvirt asks its emulators what
// they can do first, for some seconds.
const probeTimeout = 30 * time.Second

// candidate is a back end that this agent may have.
type candidate struct {
	containerType containersetup.ContainerType
	// probe looks at the host and changes nothing. It returns the back end,
	// or why there is none here.
	probe func(context.Context) (containersetup.Backend, error)
}

// candidates are all that this agent knows, one line for each.
func candidates(boxes *box.Host, l lxdHost, k kvmHost) []candidate {
	return []candidate{
		{containersetup.LXD, l.probe},
		{containersetup.KVM, k.probe},
		{box.Type, func(context.Context) (containersetup.Backend, error) { return boxes.Backend(), box.Probe() }},
	}
}

// notInThisAgent is the probe of a type that this program has nothing for.
func notInThisAgent(t containersetup.ContainerType) func(context.Context) (containersetup.Backend, error) {
	return func(context.Context) (containersetup.Backend, error) {
		return containersetup.Backend{}, errors.Errorf("no back end for %s in this agent", t)
	}
}

// findBackends returns a back end for each of the types that the machine is to
// have. One that cannot be had here is in place of itself: it says why, and so
// does the status of the containers that ask for it.
func findBackends(ctx context.Context, types []containersetup.ContainerType, from []candidate, logger *slog.Logger) map[containersetup.ContainerType]containersetup.Backend {
	backends := map[containersetup.ContainerType]containersetup.Backend{}
	for _, t := range types {
		probe := notInThisAgent(t)
		for _, c := range from {
			if c.containerType == t {
				probe = c.probe
			}
		}
		backend, err := probeOne(ctx, probe)
		if err != nil {
			logger.Warn("containers of this type cannot be had here", "type", string(t), "err", err.Error())
			backend = missing{err}.backend()
		}
		backends[t] = backend
	}
	return backends
}

// has tells whether there is a back end for the type that is not missing.
func has(backends map[containersetup.ContainerType]containersetup.Backend, t containersetup.ContainerType) bool {
	backend, ok := backends[t]
	_, none := backend.Initialiser.(missing)
	return ok && !none
}

func probeOne(ctx context.Context, probe func(context.Context) (containersetup.Backend, error)) (containersetup.Backend, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx)
}

// missing stands where there is no back end. It was looked for at the start, so
// whatever the reason is, it is one for good.
type missing struct{ why error }

func (m missing) backend() containersetup.Backend {
	return containersetup.Backend{
		Initialiser: m,
		NewBroker: func(ctx context.Context, _ facade.ContainerManagerConfig) (containersetup.Broker, error) {
			return nil, m.Initialise(ctx)
		},
	}
}

// Initialise is part of containersetup.Initialiser.
func (m missing) Initialise(context.Context) error {
	return errors.WithType(m.why, errors.NotSupported)
}
