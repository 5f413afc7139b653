package model

import (
	"reflect"
	"slices"

	"github.com/sutler-dev/sutler/facade"
)

// Changes names what differs between two readings of a model, each list sorted.
type Changes struct {
	// Applications were added or removed, or have another life or charm.
	Applications []string
	// Provisioning have other addresses, version, image, tags or storage.
	Provisioning []string
	// Containers were added or removed, or changed in whatever respect.
	Containers []string
	// Harvest tells that the machine's harvest mode is another one.
	Harvest bool
}

// Diff tells what changed. before may be nil, for a model with no applications.
// One that became unreadable, or readable again, has changed in both respects:
// nobody can tell.
func Diff(before, after *Model) Changes {
	old := map[string]*Application{}
	if before != nil {
		old = before.Applications
	}
	var c Changes
	for name := range old {
		if after.Applications[name] == nil {
			c.Applications = append(c.Applications, name)
		}
	}
	for name, app := range after.Applications {
		was := old[name]
		if was == nil || !sameText(was.Err, app.Err) {
			c.Applications = append(c.Applications, name)
			c.Provisioning = append(c.Provisioning, name)
			continue
		}
		if was.Life != app.Life || !sameText(was.CharmErr, app.CharmErr) || !reflect.DeepEqual(was.Charm, app.Charm) {
			c.Applications = append(c.Applications, name)
		}
		if !reflect.DeepEqual(was.Info, app.Info) {
			c.Provisioning = append(c.Provisioning, name)
		}
	}
	slices.Sort(c.Applications)
	slices.Sort(c.Provisioning)
	c.diffMachine(before, after)
	return c
}

func (c *Changes) diffMachine(before, after *Model) {
	var old map[string]*Container
	if before != nil {
		old = before.Containers
		c.Harvest = before.harvest() != after.harvest()
	}
	for id := range old {
		if after.Containers[id] == nil {
			c.Containers = append(c.Containers, id)
		}
	}
	for id, container := range after.Containers {
		was := old[id]
		if was == nil || !sameText(was.Err, container.Err) || was.Err == nil && !reflect.DeepEqual(was, container) {
			c.Containers = append(c.Containers, id)
		}
	}
	slices.Sort(c.Containers)
}

// harvest is the machine's mode; empty without a machine.
func (m *Model) harvest() facade.HarvestMode {
	if m.Machine == nil {
		return ""
	}
	return m.Machine.Harvest
}

// sameText compares what people would see of two errors.
func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}
