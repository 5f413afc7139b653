package remote

import (
	"context"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// socketName is the socket's, in the controller's directory.
const socketName = "facade.sock"

// Names of the questions.
const (
	hello             = "hello"
	watchApplications = "watch-applications"
	watchProvisioning = "watch-provisioning"
	life              = "life"
	charm             = "charm"
	provisioningInfo  = "provisioning-info"
	issueCertificate  = "issue-certificate"
	setPasswords      = "set-passwords"
	applicationsInfo  = "applications-info"
	setStatus         = "set-status"
)

// Source is what a controller is asked for.
type Source interface {
	facade.Applications
	facade.ProvisioningWatcher
	facade.BulkApplications
	facade.StatusSetter
}

// Identity is what there is to know of the controller itself.
type Identity struct {
	ControllerUUID string
	CACert         string
}

// wireError is an error as it travels.
type wireError struct{ Kind, Message string }

// kinds are those that mean something to whoever asks.
func kinds() []errors.ConstError {
	return []errors.ConstError{errors.NotFound, errors.NotValid, errors.NotSupported, facade.ErrConnectionLost}
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	e := &wireError{Message: err.Error()}
	for _, kind := range kinds() {
		if errors.Is(err, kind) {
			e.Kind = string(kind)
		}
	}
	return e
}

func (e *wireError) err() error {
	if e == nil {
		return nil
	}
	err := errors.New(e.Message)
	for _, kind := range kinds() {
		if string(kind) == e.Kind {
			return errors.WithType(err, kind)
		}
	}
	return err
}

// The types of the facade that would lose their secrets or their errors on the
// way.

type wirePassword struct{ Name, Password string }

type wireCertificate struct{ CACert, Cert, PrivateKey string }

// wireInfo has no credentials of registries, since the example's models have
// none.
type wireInfo struct {
	Image, BaseImage, Version string
	APIAddresses              []string
	Tags                      map[string]string
	Storage                   *facade.CharmStorage
}

type wireApplication struct {
	Name           string
	Life           facade.Life
	Format         int
	FormatErr, Err *wireError
}

type wireStatus struct {
	Name    string
	Status  facade.ProvisioningStatus
	Message string
}

func certificateToWire(c facade.OperatorCertificate, err error) (wireCertificate, error) {
	return wireCertificate{c.CACert, c.Cert, c.PrivateKey.Reveal()}, err
}

func infoToWire(i facade.OperatorProvisioningInfo, err error) (wireInfo, error) {
	return wireInfo{
		Image:        i.ImageDetails.RegistryPath,
		BaseImage:    i.BaseImageDetails.RegistryPath,
		Version:      i.Version,
		APIAddresses: i.APIAddresses,
		Tags:         i.Tags,
		Storage:      i.CharmStorage,
	}, err
}

func (i wireInfo) info() facade.OperatorProvisioningInfo {
	return facade.OperatorProvisioningInfo{
		ImageDetails:     facade.ImageDetails{RegistryPath: i.Image},
		BaseImageDetails: facade.ImageDetails{RegistryPath: i.BaseImage},
		Version:          i.Version,
		APIAddresses:     i.APIAddresses,
		Tags:             i.Tags,
		CharmStorage:     i.Storage,
	}
}

func setPasswordsOn(c Source) func(context.Context, []wirePassword) ([]*wireError, error) {
	return func(ctx context.Context, list []wirePassword) ([]*wireError, error) {
		passwords := make([]facade.ApplicationPassword, len(list))
		for i, p := range list {
			passwords[i] = facade.ApplicationPassword{Name: p.Name, Password: facade.NewSecret(p.Password)}
		}
		results, err := c.SetPasswords(ctx, passwords)
		out := make([]*wireError, len(results))
		for i, result := range results {
			out[i] = toWire(result)
		}
		return out, err
	}
}

func applicationsInfoOf(c Source) func(context.Context, []string) ([]wireApplication, error) {
	return func(ctx context.Context, names []string) ([]wireApplication, error) {
		infos, err := c.ApplicationsInfo(ctx, names)
		out := make([]wireApplication, len(infos))
		for i, a := range infos {
			out[i] = wireApplication{a.Name, a.Life, a.Format, toWire(a.FormatErr), toWire(a.Err)}
		}
		return out, err
	}
}
