package hostprep

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/deadline"
)

// tell observes and publishes, also when ctx has ended or does so meanwhile.
func (p *Preparer) tell(ctx context.Context, id string) error {
	if ctx.Err() == nil {
		err := p.publish(ctx, p.config.ObserveTimeout, id)
		if err == nil || ctx.Err() == nil {
			return err
		}
	}
	return p.publish(context.WithoutCancel(ctx), min(lastWords, p.config.ObserveTimeout), id)
}

// publish tells the controller what the host's network looks like now, if it
// looks like anything.
func (p *Preparer) publish(ctx context.Context, timeout time.Duration, id string) error {
	return p.within(ctx, timeout, func(ctx context.Context) error {
		observed, err := p.config.Network.Observe(ctx)
		if err != nil {
			return errors.Annotate(err, "observing the network")
		}
		interfaces := p.valid(observed, id)
		if len(interfaces) == 0 {
			// To publish that would say that the host has lost its
			// network, which is the less likely reason.
			p.config.Logger.Warn("no network interface observed, so none is published", "container", id)
			return nil
		}
		err = p.config.Facade.SetHostMachineNetworkConfig(ctx, p.config.MachineID, interfaces)
		return errors.Annotate(err, "publishing the network")
	})
}

// valid leaves out what no interface can be: an odd one that somebody else made
// must not keep this host's containers from starting.
func (p *Preparer) valid(observed []facade.NetworkInterface, id string) []facade.NetworkInterface {
	valid := make([]facade.NetworkInterface, 0, len(observed))
	for _, i := range observed {
		if err := i.Validate(); err != nil {
			p.config.Logger.Warn("observed network interface is left out", "container", id, "error", err)
			continue
		}
		valid = append(valid, i)
	}
	return valid
}

// within makes a call with a deadline on the config's clock.
func (p *Preparer) within(ctx context.Context, d time.Duration, f func(context.Context) error) error {
	return deadline.Call(ctx, p.config.Clock, d, f)
}

// maxNamed is how many devices a message names.
const maxNamed = 10

// devices names what is bridged, as in "eth0 (br-eth0), eth1 (br-eth1)".
func devices(all []facade.DeviceToBridge) string {
	var names []string
	for n, d := range all {
		if n == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(all)-n))
			break
		}
		names = append(names, d.Device+" ("+d.Bridge+")")
	}
	return strings.Join(names, ", ")
}
