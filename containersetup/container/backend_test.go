package container_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// startParams passes.
func startParams() container.StartParams {
	return container.StartParams{
		ContainerID: "0/lxd/1",
		Info: facade.ContainerProvisioningInfo{
			Base:     facade.Base{Name: "ubuntu", Channel: "22.04"},
			UserData: facade.NewSecret("canary-8f31"),
		},
		Interfaces: []facade.NetworkInterface{{Name: "eth0"}, {Name: "eth1", Parent: "br-eth1"}},
	}
}

func TestStartParamsValidateNamesTheField(t *testing.T) {
	type params = container.StartParams
	for _, test := range []struct {
		name   string
		change func(*params)
		want   string
	}{
		{"all there", func(*params) {}, ""},
		{"no interfaces", func(p *params) { p.Interfaces = nil }, ""},
		{"nothing", func(p *params) { *p = params{} }, "ContainerID: container id"},
		{"a machine's id", func(p *params) { p.ContainerID = "0" }, "ContainerID: container id"},
		{"a path", func(p *params) { p.ContainerID = "../../etc" }, "ContainerID: container id"},
		{"no base", func(p *params) { p.Info.Base = facade.Base{} }, "Info: container provisioning info with empty Base.Name"},
		{"no channel", func(p *params) { p.Info.Base.Channel = "" }, "Info: container provisioning info with empty Base.Channel"},
		{"an interface without a name", func(p *params) { p.Interfaces[1].Name = "" }, "Interfaces[1]: Name"},
		{"an odd parent", func(p *params) { p.Interfaces[1].Parent = "br eth1" }, `Interfaces[1]: interface "eth1": Parent`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startParams()
			test.change(&p)
			err := p.Validate()
			checkNotValid(t, err, test.want)
			if strings.Contains(fmt.Sprintf("%v %+v", err, p), "canary-8f31") {
				t.Error("the user data is shown")
			}
		})
	}
}

type initialiser struct{}

func (initialiser) Initialise(context.Context) error { return nil }

func TestBackendValidateNamesTheField(t *testing.T) {
	newBroker := func(context.Context, facade.ContainerManagerConfig) (container.Broker, error) { return nil, nil }
	for _, test := range []struct {
		backend container.Backend
		want    string
	}{
		{container.Backend{Initialiser: initialiser{}, NewBroker: newBroker}, ""},
		{container.Backend{}, "nil Initialiser"},
		{container.Backend{NewBroker: newBroker}, "nil Initialiser"},
		{container.Backend{Initialiser: initialiser{}}, "nil NewBroker"},
	} {
		checkNotValid(t, test.backend.Validate(), test.want)
	}
}
