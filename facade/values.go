package facade

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/juju/errors"
)

// MaxApplicationName is the greatest length of an application's name in bytes.
// A name becomes part of file and object names, which end at 255.
const MaxApplicationName = 200

var applicationName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*$`)

// ValidateApplicationName returns errors.NotValid unless name can be the name
// of an application: lower-case letters and digits in groups joined by single
// dashes, a letter first and at least one in each group, at most
// [MaxApplicationName] bytes. Such a name is safe as a file name, in a path and
// as a command's argument.
func ValidateApplicationName(name string) error {
	switch {
	case name == "":
		return errors.NotValidf("empty application name")
	case len(name) > MaxApplicationName:
		return errors.NotValidf("application name of %d bytes, over %d,", len(name), MaxApplicationName)
	case !applicationName.MatchString(name):
		return errors.NotValidf("application name %q", truncate(name))
	}
	return nil
}

// ApplicationPassword is the password with which the operator of the named
// application may log in.
type ApplicationPassword struct {
	Name     string
	Password Secret
}

// OperatorCertificate is what an operator serves TLS with. All three are PEM.
type OperatorCertificate struct {
	// CACert is the certificate, or several in a row, that Cert chains to.
	CACert string
	// Cert is the operator's certificate, followed by intermediate ones if
	// there are any.
	Cert string
	// PrivateKey belongs to the first certificate of Cert.
	PrivateKey Secret
}

// Validate returns errors.NotValid, naming the field, when one is empty.
// Whether the certificate fits is for its user to check.
func (c OperatorCertificate) Validate() error {
	switch {
	case c.CACert == "":
		return errors.NotValidf("operator certificate with empty CACert")
	case c.Cert == "":
		return errors.NotValidf("operator certificate with empty Cert")
	case c.PrivateKey.IsZero():
		return errors.NotValidf("operator certificate with empty PrivateKey")
	}
	return nil
}

// ImageDetails names a container image and what its registry asks for. All
// fields but RegistryPath are optional.
type ImageDetails struct {
	// RegistryPath is the image's full name, such as
	// "registry.example.com/jujusolutions/jujud-operator:2.9.49".
	RegistryPath string

	// Credentials of a private registry, in the several forms that
	// registries ask for.
	Username      string
	Password      Secret
	Auth          Secret
	IdentityToken Secret
	RegistryToken Secret

	// ServerAddress is the registry's own address.
	ServerAddress string
	// Repository is the image's path without its last element and tag.
	Repository string
	// Region is where a cloud's own registry is.
	Region string
}

// IsPrivate reports whether the image's registry wants credentials.
func (d ImageDetails) IsPrivate() bool {
	return d.Username != "" || !d.Password.IsZero() || !d.Auth.IsZero() ||
		!d.IdentityToken.IsZero() || !d.RegistryToken.IsZero()
}

// CharmStorage is the volume that an operator keeps its charm's state on.
type CharmStorage struct {
	// StorageName names the volume within its application.
	StorageName string
	// Size is in MiB.
	Size uint64
	// Provider is the kind of storage, such as "kubernetes".
	Provider string
	// Attributes are for the provider to understand.
	Attributes map[string]string
	// ResourceTags are put on the volume.
	ResourceTags map[string]string
}

// OperatorProvisioningInfo is what an application's operator is made from.
type OperatorProvisioningInfo struct {
	// ImageDetails is the operator's own image.
	ImageDetails ImageDetails
	// BaseImageDetails is the image that charms run in; its zero value is
	// for operators that need none.
	BaseImageDetails ImageDetails
	// Version is the agent version that the operator is to run, as in
	// "2.9.49".
	Version string
	// APIAddresses are the controller's, each host:port; at least one.
	APIAddresses []string
	// Tags are put on every resource made for the operator.
	Tags map[string]string
	// CharmStorage is nil when the operator needs none.
	CharmStorage *CharmStorage
}

// Validate returns errors.NotValid, naming the field and the rule, when the
// information cannot make an operator. It does not judge the storage provider:
// which ones are supported is its user's to say.
func (i OperatorProvisioningInfo) Validate() error {
	if i.Version == "" {
		return errors.NotValidf("provisioning info with empty Version")
	}
	if len(i.APIAddresses) == 0 {
		return errors.NotValidf("provisioning info with no APIAddresses")
	}
	for n, addr := range i.APIAddresses {
		if err := ValidateAddress(addr); err != nil {
			return errors.Annotate(err, fmt.Sprintf("provisioning info: APIAddresses[%d]", n))
		}
	}
	if s := i.CharmStorage; s != nil && s.Provider == "" {
		return errors.NotValidf("provisioning info: CharmStorage without Provider")
	}
	return nil
}

// ValidateAddress returns errors.NotValid unless addr is host:port with a
// numeric port between 1 and 65535 and a host that is not empty and has no white
// space or control characters.
func ValidateAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsFunc(host, notInHost) {
		return errors.NotValidf("address %q (want host:port)", truncate(addr))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.NotValidf("port of address %q (want 1 to 65535)", truncate(addr))
	}
	return nil
}

func notInHost(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// CharmInfo describes an application's charm.
type CharmInfo struct {
	Name     string
	Revision int
	// Series are those named in the charm's metadata.
	Series []string
	// Bases are those named in the charm's manifest.
	Bases []Base
}

// Base is an operating system that a charm runs on.
type Base struct {
	Name          string
	Channel       string
	Architectures []string
}

// Format returns the charm's format: 2 when its metadata names no series and
// its manifest has bases, else 1. Only operators of format 1 are provisioned
// by sutler.
func (c CharmInfo) Format() int {
	if len(c.Series) == 0 && len(c.Bases) > 0 {
		return 2
	}
	return 1
}

// ApplicationInfo is one answer of a [BulkApplications].
type ApplicationInfo struct {
	// Name says which application this is about.
	Name string
	Life Life
	// Format is the charm's, as [CharmInfo.Format] gives it.
	Format int
	// FormatErr is set instead of Format when the charm could not be read;
	// errors.NotFound when it is not there.
	FormatErr error
	// Err is set instead of everything else: errors.NotFound when there is
	// no such application.
	Err error
}
