package controller

import (
	"maps"
	"slices"
)

// Report describes the controller for people:
//
//   - address: where operators log in.
//   - model: its name and uuid, and error when it cannot be read any more.
//   - problems: what is wrong with its files, one line each.
//   - applications: each by its name, with life, format, provisioning and
//     message (how far its operator is), and operator: logins, refused,
//     last-login, last-seen, status, address, certificate, names.
//
// No password, hash or token is in it.
func (c *Controller) Report() map[string]any {
	m := c.current()
	about := map[string]any{"name": m.Name, "uuid": m.UUID}
	c.mu.Lock()
	if c.complaint != "" {
		about["error"] = c.complaint
	}
	c.mu.Unlock()
	report := map[string]any{"address": c.address, "model": about}
	if len(m.Problems) > 0 {
		problems := make([]any, len(m.Problems))
		for i, p := range m.Problems {
			problems[i] = p.Error()
		}
		report["problems"] = problems
	}
	now := c.config.Clock.Now()
	apps := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(m.Applications)) {
		app := m.Applications[name]
		entry := c.operators.report(name, now)
		entry["life"] = string(app.Life)
		switch {
		case app.Err != nil:
			entry["life"], entry["error"] = "unknown", app.Err.Error()
		case app.CharmErr != nil:
			entry["error"] = app.CharmErr.Error()
		default:
			entry["format"] = app.Charm.Format()
		}
		apps[name] = entry
	}
	report["applications"] = apps
	return report
}
