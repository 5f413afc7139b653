package kvm

import (
	"context"
	"encoding/xml"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// Undo takes back what this initialiser did to the host by its record, the last first,
// and nothing else. What somebody has changed since, and what was there before, stays.
// What is still in use, such as a pool with machines' disks, is an error that names who
// uses it; everything up to there is undone, and Undo can be called again. Base images go
// with the pool's folder, if that was made here. It needs the machine lock as Initialise
// does.
func (i *Initialiser) Undo(ctx context.Context) error {
	r, err := i.readRecord(ctx)
	if err != nil {
		return err
	}
	for len(r.Steps) > 0 {
		last := r.Steps[len(r.Steps)-1]
		i.config.Logger.LogAttrs(ctx, slog.LevelInfo, "undoing what was done for KVM", slog.String("step", last.String()))
		if err := i.undo(ctx, last, r.ID); err != nil {
			return errors.Annotatef(err, "undoing %q", last.String())
		}
		r.Steps = slices.Delete(r.Steps, len(r.Steps)-1, len(r.Steps))
		if err := i.writeRecord(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (i *Initialiser) undo(ctx context.Context, s step, uuid string) error {
	switch s.Kind {
	case install:
		return i.undoInstall(ctx, s)
	case definePool, buildPool, startPool, autoPool:
		if err := i.poolUnused(ctx, s); err != nil {
			return err
		}
	}
	if s.Kind == buildPool {
		return i.removeFolder(ctx, s.Dir)
	}
	d, err := i.config.dial()
	if err != nil {
		return err
	}
	defer d.Close()
	err = i.undoByDaemon(ctx, d, s, uuid)
	if interrupted(err) && !errors.Is(err, errInUse) {
		// Somebody may have removed libvirt as a whole.
		o := observed{programs: map[string]bool{}}
		if lookErr := i.observeMachine(ctx, &o); lookErr == nil && !o.programs["libvirtd"] {
			return nil
		}
	}
	return orGone(err)
}

func (i *Initialiser) undoByDaemon(ctx context.Context, d daemon, s step, uuid string) error {
	switch s.Kind {
	case autoNetwork:
		return d.SetNetworkAutostart(ctx, s.Name, false)
	case startNetwork:
		if err := networkUnused(ctx, d, s.Name); err != nil {
			return err
		}
		return d.StopNetwork(ctx, s.Name)
	}
	pool, err := d.Pool(ctx, s.Name)
	if err != nil || pool.Path != s.Dir {
		return err // another one, of the same name
	}
	switch s.Kind {
	case autoPool:
		return d.SetPoolAutostart(ctx, s.Name, false)
	case startPool:
		return d.StopPool(ctx, s.Name)
	case definePool:
		if pool.UUID != uuid {
			return nil
		}
		if err := d.StopPool(ctx, s.Name); err != nil {
			return err
		}
		return d.UndefinePool(ctx, s.Name)
	}
	return nil
}

func (i *Initialiser) undoInstall(ctx context.Context, s step) error {
	packages, err := i.packageManager(ctx)
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

// poolUnused returns an error that names the machines with files in a pool.
func (i *Initialiser) poolUnused(ctx context.Context, s step) error {
	store, err := images.New(images.Config{Dir: s.Dir, Host: i.config.Host, Clock: i.config.Clock})
	if err != nil {
		return err
	}
	names, err := store.Names(ctx)
	if err != nil {
		return err
	}
	return unused("storage pool", s.Name, names)
}

// removeFolder removes the folder of a pool, with the base images in it, unless somebody
// has put anything else there.
func (i *Initialiser) removeFolder(ctx context.Context, dir string) error {
	for _, pattern := range []string{"base-*.img", ".base-*.part", ".lock"} {
		names, err := i.config.Host.Glob(ctx, filepath.Join(quoted(dir), pattern))
		if err != nil {
			return errors.Annotatef(err, "removing %s", dir)
		}
		for _, name := range names {
			if err := i.config.Host.Remove(ctx, name); err != nil {
				return errors.Annotatef(err, "removing %s", dir)
			}
		}
	}
	left, err := i.config.Host.Glob(ctx, filepath.Join(quoted(dir), "*"))
	if err != nil || len(left) > 0 {
		return errors.Annotatef(err, "removing %s", dir)
	}
	return errors.Annotatef(i.config.Host.Remove(ctx, dir), "removing %s", dir)
}

// networkUnused returns an error that names the active domains on a network, whoever made
// them: they would be cut off.
func networkUnused(ctx context.Context, d daemon, name string) error {
	domains, err := d.Domains(ctx)
	if err != nil {
		return err
	}
	var by []string
	for _, domain := range domains {
		if on, err := onNetwork(ctx, d, domain, name); err != nil {
			return err
		} else if on {
			by = append(by, domain.Name)
		}
	}
	return unused("network", name, by)
}

func onNetwork(ctx context.Context, d daemon, domain virt.Domain, name string) (bool, error) {
	if !domain.Active() {
		return false, nil
	}
	text, err := d.DomainXML(ctx, domain)
	if err != nil {
		return false, orGone(err)
	}
	var def struct {
		Sources []struct {
			Network string `xml:"network,attr"`
		} `xml:"devices>interface>source"`
	}
	if err := xml.Unmarshal([]byte(text), &def); err != nil {
		return false, errors.NotValidf("definition of domain %q", domain.Name)
	}
	for _, source := range def.Sources {
		if source.Network == name {
			return true, nil
		}
	}
	return false, nil
}

// orGone makes success of what is not there any more.
func orGone(err error) error {
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	return err
}

// errInUse is of what somebody still uses.
const errInUse = errors.ConstError("still in use")

// unused returns errors.NotYetAvailable that names who uses something.
func unused(what, name string, by []string) error {
	if len(by) == 0 {
		return nil
	}
	by = slices.Sorted(slices.Values(by))
	if more := len(by) - 5; more > 0 {
		by = append(by[:5], "...")
	}
	err := errors.NewNotYetAvailable(nil, what+" "+name+" is still used by "+strings.Join(by, ", "))
	return errors.WithType(err, errInUse)
}
