package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/facade"
)

// The UUIDs of a controller and a model that exist only here.
const (
	controllerUUID = "3d6ab2d1-70a5-4b4f-8d4c-6f4e4f1c9a10"
	modelUUID      = "8f0c5a7e-1b7d-4f0e-9a57-0f2f5b0f9b3d"
)

// agentConfig is a provisioner.AgentConfig.
type agentConfig struct{ dir, caCert string }

func (a agentConfig) DataDir() string        { return a.dir }
func (a agentConfig) LogDir() string         { return filepath.Join(a.dir, "log") }
func (a agentConfig) ControllerUUID() string { return controllerUUID }
func (a agentConfig) CACert() string         { return a.caCert }

// controller is a facade.Applications with one application, which is alive for
// ever, and a CA of its own. A real facade asks a controller over a connection.
type controller struct {
	app    string
	caCert string
	ca     *x509.Certificate
	key    *ecdsa.PrivateKey

	mu       sync.Mutex
	password facade.Secret
}

var _ facade.Applications = (*controller)(nil)

func newController(app string) (*controller, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, errors.Trace(err)
	}
	template := newTemplate("sutler minimal CA", 10*365*24*time.Hour)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	ca, err := x509.ParseCertificate(der)
	return &controller{app: app, caCert: encode("CERTIFICATE", der), ca: ca, key: key}, errors.Trace(err)
}

// WatchApplications is part of facade.Applications. There is a baseline, and
// then never any news.
func (c *controller) WatchApplications(context.Context) (facade.StringsWatcher, error) {
	w := &watcher{changes: make(chan []string, 1)}
	w.changes <- []string{c.app}
	err := catacomb.Invoke(catacomb.Plan{Site: &w.catacomb, Work: func() error {
		<-w.catacomb.Dying()
		return w.catacomb.ErrDying()
	}})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

type watcher struct {
	catacomb catacomb.Catacomb
	changes  chan []string
}

func (w *watcher) Changes() <-chan []string { return w.changes }
func (w *watcher) Kill()                    { w.catacomb.Kill(nil) }
func (w *watcher) Wait() error              { return w.catacomb.Wait() }

// check returns errors.NotFound for all applications but the one.
func (c *controller) check(app string) error {
	if app != c.app {
		return errors.NotFoundf("application %q", app)
	}
	return nil
}

// Life is part of facade.Applications.
func (c *controller) Life(_ context.Context, app string) (facade.Life, error) {
	return facade.Alive, c.check(app)
}

// CharmInfo is part of facade.Applications. A charm whose metadata names a
// series is one of format 1, which needs an operator.
func (c *controller) CharmInfo(_ context.Context, app string) (facade.CharmInfo, error) {
	return facade.CharmInfo{Name: app, Revision: 1, Series: []string{"focal"}}, c.check(app)
}

// OperatorProvisioningInfo is part of facade.Applications. Nobody listens at
// the address: the operator of this example does not log in.
func (c *controller) OperatorProvisioningInfo(_ context.Context, app string) (facade.OperatorProvisioningInfo, error) {
	return facade.OperatorProvisioningInfo{Version: "2.9.49", APIAddresses: []string{"127.0.0.1:17070"}}, c.check(app)
}

// SetPasswords is part of facade.Applications. A real controller keeps a hash.
func (c *controller) SetPasswords(_ context.Context, passwords []facade.ApplicationPassword) ([]error, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]error, len(passwords))
	for i, p := range passwords {
		if results[i] = c.check(p.Name); results[i] == nil {
			c.password = p.Password
		}
	}
	return results, nil
}

// IssueOperatorCertificate is part of facade.Applications.
func (c *controller) IssueOperatorCertificate(_ context.Context, app string) (facade.OperatorCertificate, error) {
	if err := c.check(app); err != nil {
		return facade.OperatorCertificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return facade.OperatorCertificate{}, errors.Trace(err)
	}
	template := newTemplate(app, 90*24*time.Hour)
	template.DNSNames = []string{app} // by which the operator is known
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cert, err := x509.CreateCertificate(rand.Reader, template, c.ca, key.Public(), c.key)
	if err != nil {
		return facade.OperatorCertificate{}, errors.Trace(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	return facade.OperatorCertificate{
		CACert:     c.caCert,
		Cert:       encode("CERTIFICATE", cert),
		PrivateKey: facade.NewSecret(encode("PRIVATE KEY", keyDER)),
	}, errors.Trace(err)
}

// newTemplate is dated back a little, for clocks that differ.
func newTemplate(name string, life time.Duration) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-5 * time.Minute),
		NotAfter:     now.Add(life),
	}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
