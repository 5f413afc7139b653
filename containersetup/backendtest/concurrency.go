package backendtest

import (
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// These say most under the race detector.

func concurrencyChecks() []Check {
	return []Check{
		{Name: "ManyContainersAtOnce", run: checkMany},
		{Name: "OneContainerManyTimesAtOnce", run: checkSame},
		{Name: "ListingWhileOthersStartAndStop", run: checkReaders},
		{Name: "OneContainersFailureIsNotAnothers", run: checkIsolation},
		{Name: "OneContainerFromAllSidesAtOnce", run: checkAllSides},
	}
}

// checkMany starts and stops many at once, more than a provisioner does.
func checkMany(c *checker) {
	b := c.broker()
	instances := make([]container.InstanceID, c.Parallel)
	c.together(c.Parallel, func(i int) {
		result, err := c.tryStart(b, c.id(i))
		if err != nil {
			c.Errorf("StartInstance(%q): %v", c.id(i), err)
		}
		instances[i] = result.InstanceID
	})
	seen := make(map[container.InstanceID]bool)
	for i, instance := range instances {
		if seen[instance] {
			c.Errorf("two containers have the instance %q", instance)
		}
		seen[instance] = true
		c.runs(b, c.id(i), instance)
	}
	c.together(c.Parallel, func(i int) {
		for _, err := range c.tryStop(b, instances[i]) {
			if err != nil {
				c.Errorf("StopInstances of %q: %v", instances[i], err)
			}
		}
	})
	for i := range instances {
		c.gone(b, c.id(i))
	}
}

// checkSame has everybody want the same container. A back end may let one do the
// work and refuse the others meanwhile, but not make a second one.
func checkSame(c *checker) {
	b := c.broker()
	id := c.id(0)
	c.together(c.Parallel, func(int) {
		if _, err := c.tryStart(b, id); err != nil {
			c.Logf("StartInstance: %v", err)
		}
	})
	c.restarted(b, id)
	instance := c.start(b, id).InstanceID
	c.together(c.Parallel, func(int) {
		for _, err := range c.tryStop(b, instance) {
			if err != nil {
				c.Logf("StopInstances: %v", err)
			}
		}
	})
	c.removed(b, id)
}

// checkReaders lists meanwhile: an instance that comes or goes is listed or not,
// and never half.
func checkReaders(c *checker) {
	b := c.broker()
	stable := c.id(0)
	kept := c.start(b, stable).InstanceID
	const rounds = 5
	c.together(2, func(side int) {
		for range rounds {
			if side == 0 {
				result, err := c.tryStart(b, c.id(1))
				if err != nil {
					c.Errorf("StartInstance: %v", err)
					return
				}
				if err := c.tryStop(b, result.InstanceID)[0]; err != nil {
					c.Errorf("StopInstances: %v", err)
					return
				}
				continue
			}
			list, err := c.tryList(b)
			if err != nil {
				c.Errorf("AllInstances while others start and stop: %v", err)
				return
			}
			if got := of(list, stable); len(got) != 1 || got[0].ID != kept {
				c.Errorf("%d instances listed of a container that nobody touches", len(got))
			}
			for _, i := range list {
				if i.ID == "" || i.ContainerID == "" {
					c.Errorf("AllInstances lists the instance %q of the container %q", i.ID, i.ContainerID)
				}
			}
		}
	})
	c.gone(b, c.id(1))
	c.runs(b, stable, kept)
}

// checkIsolation has starts fail all the time, beside one that does not.
func checkIsolation(c *checker) {
	b := c.broker()
	good, bad := c.id(0), c.id(1)
	c.together(c.Parallel, func(i int) {
		if i == 0 {
			if _, err := c.tryStart(b, good); err != nil {
				c.Errorf("StartInstance beside one that fails: %v", err)
			}
			return
		}
		p := c.params(bad)
		p.Info.Base.Name = ""
		if err := c.call("StartInstance", c.starting(b, p, nil)); !errors.Is(err, errors.NotValid) {
			c.Errorf("StartInstance without Base.Name: error %v, want errors.NotValid", err)
		}
	})
	c.runs(b, good, "")
	c.gone(b, bad)
}

// checkAllSides has one side start and another stop. Whatever wins each time, what
// is asked for last is done, and there is never more than one.
func checkAllSides(c *checker) {
	b := c.broker()
	id := c.id(0)
	instance := c.start(b, id).InstanceID
	const rounds = 3
	c.together(3, func(side int) {
		for range rounds {
			switch side {
			case 0:
				// Refused while a removal is under way, or not.
				_, _ = c.tryStart(b, id)
			case 1:
				_ = c.tryStop(b, instance)
			case 2:
				if list, err := c.tryList(b); err == nil && len(of(list, id)) > 1 {
					c.Errorf("%d instances listed of one container", len(of(list, id)))
				}
			}
		}
	})
	c.restarted(b, id)
	c.removed(b, id)
}
