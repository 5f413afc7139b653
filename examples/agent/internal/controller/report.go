package controller

import (
	"maps"
	"slices"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
)

// Report describes the controller for people:
//
//   - address: where operators log in.
//   - model: its name and uuid, and error when it cannot be read any more.
//   - problems: what is wrong with its files, one line each.
//   - applications: each by its name, with life, format, provisioning and
//     message (how far its operator is), and operator: logins, refused,
//     last-login, last-seen, status, address, certificate, names.
//   - machine, if there is one: its id, the types of containers that it can
//     have, harvest, and network: the addresses of each published device.
//   - containers, if there is a machine: each by its id, with life, state,
//     message, instance and addresses.
//
// No password, hash, token or user data is in it.
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
	if m.Machine != nil {
		k := c.config.State.containers.now()
		report["machine"] = reportMachine(m.Machine, k)
		report["containers"] = reportContainers(m, k)
	}
	return report
}

func reportMachine(machine *model.Machine, k kept) map[string]any {
	types := make([]string, len(machine.Types))
	for i, t := range machine.Types {
		types[i] = string(t)
	}
	network := map[string]any{}
	for _, i := range k.Network {
		network[i.Name] = slices.Clone(i.Addresses)
	}
	return map[string]any{"id": machine.ID, "types": types, "harvest": string(machine.Harvest), "network": network}
}

func reportContainers(m *model.Model, k kept) map[string]any {
	out := map[string]any{}
	for id, c := range m.Containers {
		r := k.Containers[id]
		entry := map[string]any{"life": string(r.life(c)), "state": string(r.State)}
		if c.Err != nil {
			entry["life"], entry["error"] = "unknown", c.Err.Error()
		}
		if r.Message != "" {
			entry["message"] = r.Message
		}
		if r.Instance != "" {
			entry["instance"] = r.Instance
		}
		var addresses []string
		for _, i := range r.Addresses {
			addresses = append(addresses, i.Addresses...)
		}
		if len(addresses) > 0 {
			entry["addresses"] = addresses
		}
		out[id] = entry
	}
	return out
}
