package fakes

import (
	"maps"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// App is what [Controller.AddApplication] adds. A field that is zero stands for
// what a test without special wishes wants; [Controller.SetLife],
// [Controller.SetCharm] and [Controller.SetInfo] take everything as it is, to
// make a controller that answers nonsense.
type App struct {
	// Life is facade.Alive by default.
	Life facade.Life
	// Charm is Charm(1) by default.
	Charm facade.CharmInfo
	// Info is Info() by default.
	Info facade.OperatorProvisioningInfo
}

// Charm returns a charm of format 1 or 2.
func Charm(format int) facade.CharmInfo {
	if format == 2 {
		return facade.CharmInfo{
			Name:     "sidecar",
			Revision: 7,
			Bases:    []facade.Base{{Name: "ubuntu", Channel: "22.04/stable", Architectures: []string{"amd64"}}},
		}
	}
	return facade.CharmInfo{Name: "pod-spec", Revision: 3, Series: []string{"kubernetes"}}
}

// Info returns provisioning information that is complete and valid, without
// storage.
func Info() facade.OperatorProvisioningInfo {
	return facade.OperatorProvisioningInfo{
		ImageDetails:     facade.ImageDetails{RegistryPath: "registry.example.com/operator:2.9.49"},
		BaseImageDetails: facade.ImageDetails{RegistryPath: "registry.example.com/charm-base:ubuntu-20.04"},
		Version:          "2.9.49",
		APIAddresses:     []string{"10.0.0.1:17070", "10.0.0.2:17070"},
		Tags:             map[string]string{"model": ModelUUID},
	}
}

// Status is what users see of an application's provisioning.
type Status struct {
	Status  facade.ProvisioningStatus
	Message string
	// Changes is how often it was set.
	Changes int
}

// AddApplication adds an application, in place of the one of that name if
// there is one: the new one has no password yet. Watchers are told.
func (c *Controller) AddApplication(name string, app App) {
	if app.Life == "" {
		app.Life = facade.Alive
	}
	if app.Charm.Name == "" && len(app.Charm.Series)+len(app.Charm.Bases) == 0 {
		app.Charm = Charm(1)
	}
	if app.Info.Version == "" && app.Info.APIAddresses == nil {
		app.Info = Info()
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.apps[name] = &application{life: app.Life, charm: cloneCharm(app.Charm), info: cloneInfo(app.Info)}
	c.state.watchers.send("WatchApplications", name)
	c.state.watchers.send("WatchProvisioning", name)
}

// RemoveApplication makes the application not be found any more, and its
// password with it. Watchers of applications are told.
func (c *Controller) RemoveApplication(name string) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if _, ok := c.state.apps[name]; ok {
		delete(c.state.apps, name)
		c.state.watchers.send("WatchApplications", name)
	}
}

// SetLife changes the application's life to any text. Watchers of applications
// are told.
func (c *Controller) SetLife(name string, life facade.Life) {
	c.change("WatchApplications", name, func(a *application) { a.life = life })
}

// SetCharm changes the application's charm. Watchers of applications are told.
func (c *Controller) SetCharm(name string, charm facade.CharmInfo) {
	charm = cloneCharm(charm)
	c.change("WatchApplications", name, func(a *application) { a.charm, a.noCharm = charm, false })
}

// RemoveCharm makes the application's charm not be found. Watchers of
// applications are told.
func (c *Controller) RemoveCharm(name string) {
	c.change("WatchApplications", name, func(a *application) { a.noCharm = true })
}

// SetInfo changes the application's provisioning information to anything, also
// to what is not valid. Watchers of provisioning are told.
func (c *Controller) SetInfo(name string, info facade.OperatorProvisioningInfo) {
	info = cloneInfo(info)
	c.change("WatchProvisioning", name, func(a *application) { a.info = info })
}

// change changes an application that is there, and tells.
func (c *Controller) change(watch, name string, f func(*application)) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if a, ok := c.state.apps[name]; ok {
		f(a)
		c.state.watchers.send(watch, name)
	}
}

// CACert returns the certificate of the controller's present CA, in PEM.
func (c *Controller) CACert() string {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.ca.pem
}

// RotateCA gives the controller another CA. Certificates issued before do not
// chain to it. Watchers of provisioning are told, with every application; an
// [Agent] has to be told by the test.
func (c *Controller) RotateCA() {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.ca = newAuthority(c.state.now())
	c.state.watchers.send("WatchProvisioning", slices.Sorted(maps.Keys(c.state.apps))...)
}

// SetCertificateLife changes for how long certificates are valid from now on;
// [DefaultCertificateLife] in the beginning.
func (c *Controller) SetCertificateLife(life time.Duration) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.certLife = life
}

// SetFlaw makes every certificate issued from now on wrong, for the
// applications named, or for all without one of their own when none is named.
// The empty flaw makes them right.
func (c *Controller) SetFlaw(flaw Flaw, apps ...string) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if len(apps) == 0 {
		c.state.flaw = flaw
	}
	for _, app := range apps {
		c.state.flaws[app] = flaw
	}
}

// Password returns the password with which the application's operator may log
// in, and whether one was set at all.
func (c *Controller) Password(app string) (facade.Secret, bool) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	a, ok := c.state.apps[app]
	if !ok || a.password.IsZero() {
		return facade.Secret{}, false
	}
	return a.password, true
}

// PasswordChanges returns how often the application's password became another
// one, the first time included.
func (c *Controller) PasswordChanges(app string) int {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if a, ok := c.state.apps[app]; ok {
		return a.changes
	}
	return 0
}

// Login does what the controller does when the application's operator logs in:
// it returns errors.Unauthorized unless the password is the right one.
func (c *Controller) Login(app string, password facade.Secret) error {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.login(app, password)
}

func (s *controllerState) login(app string, password facade.Secret) error {
	a, ok := s.apps[app]
	if !ok || a.password.IsZero() || !a.password.Equal(password) {
		return errors.Unauthorizedf("log-in of application %q", app)
	}
	return nil
}

// ChangePassword is what an operator that has logged in does to have a
// password of its own. It returns errors.Unauthorized unless old is right.
func (c *Controller) ChangePassword(app string, old, password facade.Secret) error {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if err := c.state.login(app, old); err != nil {
		return err
	}
	return c.state.setPassword(facade.ApplicationPassword{Name: app, Password: password})
}

// Status returns the application's provisioning status, zero when none was
// set.
func (c *Controller) Status(app string) Status {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if a, ok := c.state.apps[app]; ok {
		return a.status
	}
	return Status{}
}

// Watchers returns the watchers that the method, WatchApplications or
// WatchProvisioning, has handed out over this view's connection and that have
// not ended, oldest first, for a test to break.
func (c *Controller) Watchers(method string) []*Watcher[[]string] {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return c.state.watchers.live(method, c.faults)
}
