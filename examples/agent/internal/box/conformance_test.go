package box

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		w := newWorld(t)
		host := w.host()
		foreign := 0
		return backendtest.Harness{
			Backend: host.Backend(),
			Type:    Type,
			Params: func(id string) container.StartParams {
				p := backendtest.Params(id)
				p.Interfaces = params(id).Interfaces
				return p
			},
			Restart: func() (container.Backend, error) {
				w.stop(host)
				host = w.host()
				return host.Backend(), nil
			},
			Initialised: func() int { return strings.Count(w.log.String(), "is prepared for boxes") },
			HalfMake: func(id string) error {
				name, err := container.InstanceName(modelUUID, id)
				if err != nil {
					return err
				}
				r := record{Container: id, Model: modelUUID, Nonce: "of before"}
				return host.instance(name).make(r, facade.NewSecret("of before"))
			},
			Foreign: func() (container.InstanceID, error) {
				foreign++
				other := w.host(func(c *Config) { c.ModelUUID = strings.Replace(modelUUID, "2d3e", "ffff", 1) })
				b, err := other.Backend().NewBroker(t.Context(), nil)
				if err != nil {
					return "", err
				}
				result, err := b.StartInstance(t.Context(), params("0/box/"+strconv.Itoa(foreign)))
				return result.InstanceID, err
			},
		}
	})
}
