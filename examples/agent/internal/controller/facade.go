package controller

import (
	"context"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/model"
	"github.com/sutler-dev/sutler/facade"
)

// application returns the application as it was last read: errors.NotFound when
// there is none, or why its file cannot be read.
func (c *Controller) application(name string) (*model.Application, error) {
	app := c.current().Applications[name]
	if app == nil {
		return nil, errors.NotFoundf("application %q", name)
	}
	return app, app.Err
}

// WatchApplications is part of facade.Applications.
func (c *Controller) WatchApplications(context.Context) (facade.StringsWatcher, error) {
	return c.watch(&c.applicationWatchers)
}

// WatchProvisioning is part of facade.ProvisioningWatcher.
func (c *Controller) WatchProvisioning(context.Context) (facade.StringsWatcher, error) {
	return c.watch(&c.provisioningWatchers)
}

// Life is part of facade.Applications.
func (c *Controller) Life(_ context.Context, name string) (facade.Life, error) {
	app, err := c.application(name)
	if err != nil {
		return "", err
	}
	return app.Life, nil
}

// CharmInfo is part of facade.Applications.
func (c *Controller) CharmInfo(_ context.Context, name string) (facade.CharmInfo, error) {
	app, err := c.application(name)
	if err != nil {
		return facade.CharmInfo{}, err
	}
	return app.Charm, app.CharmErr
}

// OperatorProvisioningInfo is part of facade.Applications.
func (c *Controller) OperatorProvisioningInfo(_ context.Context, name string) (facade.OperatorProvisioningInfo, error) {
	app, err := c.application(name)
	if err != nil {
		return facade.OperatorProvisioningInfo{}, err
	}
	info := app.Info
	if len(info.APIAddresses) == 0 {
		info.APIAddresses = []string{c.address}
	}
	if info.ImageDetails.RegistryPath == "" {
		info.ImageDetails.RegistryPath = c.config.Image
	}
	return info, nil
}

// SetPasswords is part of facade.Applications.
func (c *Controller) SetPasswords(ctx context.Context, list []facade.ApplicationPassword) ([]error, error) {
	results := make([]error, len(list))
	var known []facade.ApplicationPassword
	var index []int // of known, in list
	for i, item := range list {
		if c.current().Applications[item.Name] == nil {
			results[i] = errors.NotFoundf("application %q", item.Name)
			continue
		}
		known, index = append(known, item), append(index, i)
	}
	for i, err := range c.config.State.passwords.set(ctx, known) {
		results[index[i]] = err
	}
	return results, nil
}

// IssueOperatorCertificate is part of facade.Applications.
func (c *Controller) IssueOperatorCertificate(_ context.Context, name string) (facade.OperatorCertificate, error) {
	if _, err := c.application(name); err != nil {
		return facade.OperatorCertificate{}, err
	}
	return c.config.State.ca.issue(c.config.Clock.Now(), c.current().CertificateLife, []string{name})
}

// ApplicationsInfo is part of facade.BulkApplications.
func (c *Controller) ApplicationsInfo(_ context.Context, names []string) ([]facade.ApplicationInfo, error) {
	out := make([]facade.ApplicationInfo, len(names))
	for i, name := range names {
		out[i].Name = name
		app, err := c.application(name)
		switch {
		case err != nil:
			out[i].Err = err
		case app.CharmErr != nil:
			out[i].Life, out[i].FormatErr = app.Life, app.CharmErr
		default:
			out[i].Life, out[i].Format = app.Life, app.Charm.Format()
		}
	}
	return out, nil
}

// SetProvisioningStatus is part of facade.StatusSetter.
func (c *Controller) SetProvisioningStatus(_ context.Context, name string, status facade.ProvisioningStatus, message string) error {
	if c.current().Applications[name] == nil {
		return errors.NotFoundf("application %q", name)
	}
	c.operators.setProvisioning(name, status, message)
	return nil
}
