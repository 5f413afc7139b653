package backendtest

import (
	"context"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

func inputChecks() []Check {
	return []Check{
		{Name: "InvalidParamsAreRefusedAndNothingIsMade", run: checkParams},
		{Name: "InvalidParamsLeaveAnInstanceAlone", run: checkParamsOver},
		{Name: "MissingSettingsAreBorneOrRefused", run: checkSettings},
		{Name: "ParamsAreNotShared", run: checkShared},
	}
}

// invalidIDs are no containers, and some would do harm as a path, an argument or
// a name.
func (c *checker) invalidIDs() []string {
	typ := string(c.Type)
	return []string{
		"", " ", "0", "/", "//", typ, "0/" + typ, "0/" + typ + "/", "0/" + typ + "/x", "0/" + typ + "/-1",
		"0/" + typ + "/01", "../" + typ + "/0", "0/../0", "0/" + typ + "/0/", "0/" + strings.ToUpper(typ) + "/0",
		"0/" + typ + "/0\n", "0/" + typ + "/0\x00", "0/" + typ + "/$(id)", "0/" + typ + "/0;b", "0/ä/0",
		strings.Repeat("0/"+typ+"/", 2000) + "0",
	}
}

// invalid returns params that no instance can be made from, each under what the
// error must name.
func (c *checker) invalid(id string) map[string]container.StartParams {
	with := func(change func(*container.StartParams)) container.StartParams {
		p := c.params(id)
		change(&p)
		return p
	}
	return map[string]container.StartParams{
		"Base.Name":    with(func(p *container.StartParams) { p.Info.Base.Name = "" }),
		"Base.Channel": with(func(p *container.StartParams) { p.Info.Base.Channel = "" }),
		"Interfaces[0]": with(func(p *container.StartParams) {
			p.Interfaces = []facade.NetworkInterface{{Name: "../eth0"}}
		}),
		"Addresses[0]": with(func(p *container.StartParams) {
			p.Interfaces = []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"10.0.0.5"}}}
		}),
	}
}

// refuses fails the check unless every one of the params is errors.NotValid and
// names what is wrong.
func (c *checker) refuses(b container.Broker, params map[string]container.StartParams) {
	c.Helper()
	for field, p := range params {
		err := c.call("StartInstance", c.starting(b, p, nil))
		if !errors.Is(err, errors.NotValid) {
			c.Errorf("StartInstance with a wrong %s: error %v, want errors.NotValid", field, err)
		} else if !strings.Contains(err.Error(), field) {
			c.Errorf("StartInstance with a wrong %s: the error %q does not name it", field, err)
		}
	}
}

// checkParams holds the broker to looking at what it is given before any of it
// becomes a name, a path or an argument.
func checkParams(c *checker) {
	b := c.broker()
	id := c.id(0)
	for _, wrong := range c.invalidIDs() {
		p := c.params(id)
		p.ContainerID = wrong
		c.refuses(b, map[string]container.StartParams{"ContainerID": p})
	}
	c.refuses(b, c.invalid(id))
	for _, i := range c.list(b) {
		if _, err := container.ParseID(i.ContainerID); err != nil {
			c.Errorf("AllInstances lists an instance of the container %q", i.ContainerID)
		}
	}
	c.gone(b, id)
}

// checkParamsOver has an instance there, which a refused start must not touch.
func checkParamsOver(c *checker) {
	b := c.broker()
	id := c.id(0)
	kept := c.start(b, id).InstanceID
	c.refuses(b, c.invalid(id))
	c.runs(b, id, kept)
}

// checkSettings has a controller that says nothing: what can be done without is
// done without, what cannot is an error.
func checkSettings(c *checker) {
	c.prepared()
	for what, settings := range map[string]facade.ContainerManagerConfig{
		"nil":     nil,
		"empty":   {},
		"unknown": {"no-such-key": "no such value", "": ""},
	} {
		err := c.call("NewBroker", func(ctx context.Context) error {
			b, err := c.Backend.NewBroker(ctx, settings)
			if err == nil && b == nil {
				c.Errorf("NewBroker with %s settings returns nil without an error", what)
			}
			return err
		})
		if err != nil {
			c.Logf("NewBroker with %s settings: %v", what, err)
		}
	}
	c.list(c.broker())
}

// checkShared changes what was given, and what was returned, behind the broker's
// back.
func checkShared(c *checker) {
	b := c.broker()
	id := c.id(0)
	p := c.params(id)
	var first container.StartResult
	if err := c.call("StartInstance", c.starting(b, p, &first)); err != nil {
		c.fatalf("StartInstance: %v", err)
	}
	kept := first.InstanceID
	for k := range p.Info.Tags {
		p.Info.Tags[k] = "changed"
	}
	for i := range p.Interfaces {
		p.Interfaces[i].Name = "changed"
	}
	for i := range first.Interfaces {
		first.Interfaces[i].Name = "changed"
	}
	list := c.list(b)
	for i := range list {
		list[i] = container.Instance{}
	}
	c.runs(b, id, kept)
	for _, i := range c.start(b, id).Interfaces {
		if i.Name == "changed" {
			c.Errorf("an interface has the name that its caller gave it afterwards")
		}
	}
}
