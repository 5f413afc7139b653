package lxd

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

// Undo takes back what this initialiser did to the host by its record, the last first,
// and nothing else. What somebody has changed since, and what was there before, stays.
// What is still in use, such as a pool with containers, is an error that names who uses
// it; everything up to there is undone, and Undo can be called again. It needs the
// machine lock as Initialise does.
func (i *Initialiser) Undo(ctx context.Context) error {
	r, err := i.readRecord(ctx)
	if err != nil {
		return err
	}
	for len(r.Steps) > 0 {
		last := r.Steps[len(r.Steps)-1]
		i.config.Logger.LogAttrs(ctx, slog.LevelInfo, "undoing what was done for LXD", slog.String("step", last.String()))
		err := i.undo(ctx, last, r.ID)
		if errors.Is(err, errors.NotYetAvailable) && last.Kind != install {
			// Somebody may have removed LXD as a whole.
			if there, lookErr := i.installed(ctx); lookErr == nil && !there {
				err = nil
			}
		}
		if err != nil {
			return errors.Annotatef(err, "undoing %q", last.String())
		}
		r.Steps = slices.Delete(r.Steps, len(r.Steps)-1, len(r.Steps))
		if err := i.writeRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (i *Initialiser) undo(ctx context.Context, s step, mark string) error {
	if s.Kind == install {
		packages, err := host.Packages(ctx, i.config.Host, i.config.Clock)
		if err != nil {
			return err
		}
		added := s.Added
		if s.Had != nil {
			// The agent died in the middle: what came since came by it.
			now, err := packages.List(ctx)
			if err != nil {
				return err
			}
			added = append(added, without(now, s.Had)...)
		}
		return packages.Remove(ctx, added...)
	}
	client, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	switch s.Kind {
	case makePool:
		p, err := client.StoragePool(ctx, s.Name)
		if err != nil || p.Config[markKey] != mark {
			return orGone(err)
		}
		if err := unused("storage pool", s.Name, p.UsedBy); err != nil {
			return err
		}
		return orGone(client.DeleteStoragePool(ctx, s.Name))
	case makeNetwork:
		n, err := client.Network(ctx, s.Name)
		if err != nil || n.Config[markKey] != mark {
			return orGone(err)
		}
		if err := unused("bridge", s.Name, n.UsedBy); err != nil {
			return err
		}
		if err := orGone(client.DeleteNetwork(ctx, s.Name)); err != nil {
			return err
		}
		return i.undoTable(ctx, s)
	case addDevice:
		return i.undoDevice(ctx, client, s)
	case configureItem:
		server, err := client.Server(ctx)
		if err != nil || server.Config[s.Name] != s.Config["value"] {
			return err
		}
		return client.PatchServerConfig(ctx, map[string]string{s.Name: s.Before})
	}
	return nil
}

// undoDevice takes a device out of the default profile, if it is still as it was put
// there and no instance has it.
func (i *Initialiser) undoDevice(ctx context.Context, client *api.Client, s step) error {
	profile, _, err := client.Profile(ctx, defaultProfile)
	if err != nil {
		return orGone(err)
	}
	if !maps.Equal(profile.Devices[s.Name], s.Config) {
		return nil
	}
	if err := unused("default profile", defaultProfile, profile.UsedBy); err != nil {
		return err
	}
	return i.editProfile(ctx, client, func(devices api.Devices) { delete(devices, s.Name) })
}

// orGone makes success of what is not there any more.
func orGone(err error) error {
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	return err
}

// unused returns errors.NotYetAvailable that names who uses something. Images do not
// count: they go with it.
func unused(what, name string, by []string) error {
	var names []string
	for _, path := range by {
		if name, ok := strings.CutPrefix(path, "/1.0/instances/"); ok {
			names = append(names, name)
		} else if name, ok := strings.CutPrefix(path, "/1.0/profiles/"); ok {
			names = append(names, "profile "+name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if more := len(names) - 5; more > 0 {
		names = append(names[:5], "...")
	}
	return errors.NewNotYetAvailable(nil, what+" "+name+" is still used by "+strings.Join(names, ", "))
}

// noTable is what a step has that found no table of LXD's in the firewall.
const noTable = "no table"

// hasTable tells whether LXD has a table in the firewall.
func (i *Initialiser) hasTable(ctx context.Context) bool {
	_, err := i.config.Host.Run(ctx, host.Look("nft", "list", "table", "inet", "lxd"))
	return err == nil
}

// undoTable removes LXD's table from the firewall, which LXD leaves behind empty, if it
// came with the network. One with anything in it stays.
func (i *Initialiser) undoTable(ctx context.Context, s step) error {
	if s.Before != noTable {
		return nil
	}
	out, err := i.config.Host.Run(ctx, host.Look("nft", "list", "table", "inet", "lxd"))
	if err != nil || strings.Join(strings.Fields(string(out.Stdout)), " ") != "table inet lxd { }" {
		return nil // none, or not ours to remove
	}
	_, err = i.config.Host.Run(ctx, host.Do("nft", "delete", "table", "inet", "lxd"))
	return errors.Annotate(err, "removing LXD's empty firewall table")
}
