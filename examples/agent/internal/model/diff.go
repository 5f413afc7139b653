package model

import (
	"reflect"
	"slices"
)

// Changes names the applications that differ between two readings of a model,
// each list sorted.
type Changes struct {
	// Applications were added or removed, or have another life or charm.
	Applications []string
	// Provisioning have other addresses, version, image, tags or storage.
	Provisioning []string
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
	return c
}

// sameText compares what people would see of two errors.
func sameText(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}
