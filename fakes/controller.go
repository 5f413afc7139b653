package fakes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Controller is an in-memory controller with one model. It implements
// facade.Applications and all of that one's optional interfaces; see
// [Controller.Plain] and [Controller.With] for less.
//
// A Controller is a view of the controller's state over one connection, its
// [Faults]; [Controller.Session] makes another view of the same state. All of
// its methods may be called from many goroutines at once. Those that are not
// part of a facade interface go by the faults: they are the test's own hand.
type Controller struct {
	faults *Faults
	state  *controllerState
}

var (
	_ facade.Applications        = (*Controller)(nil)
	_ facade.ProvisioningWatcher = (*Controller)(nil)
	_ facade.BulkApplications    = (*Controller)(nil)
	_ facade.StatusSetter        = (*Controller)(nil)
)

type controllerState struct {
	mu       sync.Mutex
	now      func() time.Time
	apps     map[string]*application
	watchers watchers

	ca, otherCA *authority
	certLife    time.Duration
	flaw        Flaw
	flaws       map[string]Flaw
}

// application is what the controller knows of one.
type application struct {
	life    facade.Life
	charm   facade.CharmInfo
	noCharm bool
	info    facade.OperatorProvisioningInfo

	password facade.Secret
	changes  int
	status   Status
}

// NewController returns a controller without applications, whose calls go
// through the faults given and whose certificates are dated by their clock.
func NewController(faults *Faults) *Controller {
	now := faults.clock.Now
	return &Controller{
		faults: faults,
		state: &controllerState{
			now:      now,
			apps:     make(map[string]*application),
			ca:       newAuthority(now()),
			certLife: DefaultCertificateLife,
			flaws:    make(map[string]Flaw),
		},
	}
}

// Session returns a view of the same controller over another connection.
func (c *Controller) Session(faults *Faults) *Controller {
	return &Controller{faults: faults, state: c.state}
}

// Faults returns what this view's calls go through.
func (c *Controller) Faults() *Faults { return c.faults }

// WatchApplications is part of facade.Applications.
func (c *Controller) WatchApplications(ctx context.Context) (facade.StringsWatcher, error) {
	return c.watch(ctx, "WatchApplications")
}

// WatchProvisioning is part of facade.ProvisioningWatcher. Its baseline is
// every application.
func (c *Controller) WatchProvisioning(ctx context.Context) (facade.StringsWatcher, error) {
	return c.watch(ctx, "WatchProvisioning")
}

func (c *Controller) watch(ctx context.Context, method string) (facade.StringsWatcher, error) {
	return run(ctx, c.faults, Call{Method: method}, func(plan) (facade.StringsWatcher, error) {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		return c.state.watchers.add(method, c.faults, slices.Sorted(maps.Keys(c.state.apps))), nil
	})
}

// Life is part of facade.Applications.
func (c *Controller) Life(ctx context.Context, app string) (facade.Life, error) {
	return ask(ctx, c, "Life", app, func(a *application) (facade.Life, error) {
		return a.life, nil
	})
}

// CharmInfo is part of facade.Applications.
func (c *Controller) CharmInfo(ctx context.Context, app string) (facade.CharmInfo, error) {
	return ask(ctx, c, "CharmInfo", app, func(a *application) (facade.CharmInfo, error) {
		if a.noCharm {
			return facade.CharmInfo{}, errors.NotFoundf("charm of application %q", app)
		}
		return cloneCharm(a.charm), nil
	})
}

// OperatorProvisioningInfo is part of facade.Applications.
func (c *Controller) OperatorProvisioningInfo(ctx context.Context, app string) (facade.OperatorProvisioningInfo, error) {
	return ask(ctx, c, "OperatorProvisioningInfo", app, func(a *application) (facade.OperatorProvisioningInfo, error) {
		return cloneInfo(a.info), nil
	})
}

// IssueOperatorCertificate is part of facade.Applications.
func (c *Controller) IssueOperatorCertificate(ctx context.Context, app string) (facade.OperatorCertificate, error) {
	return ask(ctx, c, "IssueOperatorCertificate", app, func(*application) (facade.OperatorCertificate, error) {
		s := c.state
		flaw, ok := s.flaws[app]
		if !ok {
			flaw = s.flaw
		}
		return s.ca.issueFlawed(flaw, s.other, app, s.now(), s.certLife), nil
	})
}

// SetProvisioningStatus is part of facade.StatusSetter.
func (c *Controller) SetProvisioningStatus(ctx context.Context, app string, status facade.ProvisioningStatus, message string) error {
	_, err := ask(ctx, c, "SetProvisioningStatus", app, func(a *application) (struct{}, error) {
		a.status = Status{Status: status, Message: message, Changes: a.status.Changes + 1}
		return struct{}{}, nil
	}, status, message)
	return err
}

// ask answers about one application, with the state locked.
func ask[T any](ctx context.Context, c *Controller, method, app string, answer func(*application) (T, error), args ...any) (T, error) {
	return run(ctx, c.faults, Call{Method: method, Key: app, Args: args}, func(p plan) (T, error) {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		var zero T
		a, ok := c.state.apps[app]
		switch {
		case p.half():
			return zero, nil
		case !ok:
			return zero, errors.NotFoundf("application %q", app)
		}
		return answer(a)
	})
}

// SetPasswords is part of facade.Applications.
func (c *Controller) SetPasswords(ctx context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	call := Call{Method: "SetPasswords", Keys: make([]string, len(passwords)), Args: []any{slices.Clone(passwords)}}
	for i, p := range passwords {
		call.Keys[i] = p.Name
	}
	return run(ctx, c.faults, call, func(p plan) ([]error, error) {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		results := make([]error, len(passwords))
		for i, pw := range passwords {
			if p.half() && i >= len(passwords)/2 {
				break
			}
			item := p.items[i]
			if item.acts() {
				results[i] = c.state.setPassword(pw)
			}
			if item.Err != nil {
				results[i] = item.Err
			}
			results[i] = altered(item, results[i])
		}
		return results, nil
	})
}

// ApplicationsInfo is part of facade.BulkApplications.
func (c *Controller) ApplicationsInfo(ctx context.Context, apps []string) ([]facade.ApplicationInfo, error) {
	keys := append([]string{}, apps...)
	return run(ctx, c.faults, Call{Method: "ApplicationsInfo", Keys: keys}, func(p plan) ([]facade.ApplicationInfo, error) {
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		results := make([]facade.ApplicationInfo, len(apps))
		for i, app := range apps {
			result := c.state.applicationInfo(app)
			if err := p.items[i].Err; err != nil {
				result = facade.ApplicationInfo{Name: app, Err: err}
			}
			results[i] = altered(p.items[i], result)
		}
		return results, nil
	})
}

func (s *controllerState) setPassword(p facade.ApplicationPassword) error {
	a, ok := s.apps[p.Name]
	switch {
	case !ok:
		return errors.NotFoundf("application %q", p.Name)
	case p.Password.IsZero():
		return errors.NotValidf("empty password of application %q", p.Name)
	}
	if !a.password.Equal(p.Password) {
		a.password = p.Password
		a.changes++
	}
	return nil
}

func (s *controllerState) applicationInfo(app string) facade.ApplicationInfo {
	a, ok := s.apps[app]
	switch {
	case !ok:
		return facade.ApplicationInfo{Name: app, Err: errors.NotFoundf("application %q", app)}
	case a.noCharm:
		return facade.ApplicationInfo{Name: app, Life: a.life, FormatErr: errors.NotFoundf("charm of application %q", app)}
	}
	return facade.ApplicationInfo{Name: app, Life: a.life, Format: a.charm.Format()}
}

// other returns the CA that wrong certificates are signed by.
func (s *controllerState) other() *authority {
	if s.otherCA == nil {
		s.otherCA = newAuthority(s.now())
	}
	return s.otherCA
}

func cloneCharm(c facade.CharmInfo) facade.CharmInfo {
	c.Series = slices.Clone(c.Series)
	c.Bases = slices.Clone(c.Bases)
	for i := range c.Bases {
		c.Bases[i].Architectures = slices.Clone(c.Bases[i].Architectures)
	}
	return c
}

func cloneInfo(i facade.OperatorProvisioningInfo) facade.OperatorProvisioningInfo {
	i.APIAddresses = slices.Clone(i.APIAddresses)
	i.Tags = maps.Clone(i.Tags)
	if i.CharmStorage != nil {
		storage := *i.CharmStorage
		storage.Attributes = maps.Clone(storage.Attributes)
		storage.ResourceTags = maps.Clone(storage.ResourceTags)
		i.CharmStorage = &storage
	}
	return i
}
