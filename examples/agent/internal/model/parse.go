package model

import (
	"regexp"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

const (
	// DefaultVersion is the agent version of a model that names none.
	DefaultVersion = "2.9.49"
	// DefaultCertificateLife is the life of operators' certificates in a model
	// that says nothing of it.
	DefaultCertificateLife = 90 * 24 * time.Hour

	minCertificateLife = 10 * time.Second
	maxCertificateLife = 365 * 24 * time.Hour
)

// Settings is what model.yaml says.
type Settings struct {
	// Name and UUID are the model's.
	Name, UUID string
	// Version is the agent version of the applications that name none.
	Version string
	// CertificateLife is that of operators' certificates.
	CertificateLife time.Duration
}

var (
	uuidForm    = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	nameForm    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	versionForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+|-[a-z]+[0-9]*)+$`)
)

const (
	wantUUID    = "want a UUID, as in 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e"
	wantName    = "want lower-case letters, digits and single dashes between them"
	wantVersion = "want an agent version, as in " + DefaultVersion
	wantAddress = "want host:port with a port from 1 to 65535"
	wantLife    = "want alive, dying or dead"
	wantSpan    = "want a time from 10s to 8760h"
)

// ParseSettings reads a model.yaml. file is what a [Problem], which every error
// is, calls it.
func ParseSettings(file string, data []byte) (Settings, error) {
	doc, m := open(file, data)
	m.only("name", "uuid", "version", "certificate-life")
	s := Settings{Name: m.text("name"), UUID: m.text("uuid"), Version: m.text("version"), CertificateLife: DefaultCertificateLife}
	if !nameForm.MatchString(s.Name) {
		m.reject("name", wantName)
	}
	if !uuidForm.MatchString(s.UUID) {
		m.reject("uuid", wantUUID)
	}
	if s.Version == "" {
		s.Version = DefaultVersion
	}
	if !versionForm.MatchString(s.Version) {
		m.reject("version", wantVersion)
	}
	if text := m.text("certificate-life"); text != "" {
		var err error
		s.CertificateLife, err = time.ParseDuration(text)
		if err != nil || s.CertificateLife < minCertificateLife || s.CertificateLife > maxCertificateLife {
			m.reject("certificate-life", wantSpan)
		}
	}
	if err := doc.err(); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// ParseApplication reads an application.yaml. An application that does not say
// is alive, has no storage, and has its model's version (left empty here) and
// the controller's own addresses (left out).
func ParseApplication(file string, data []byte) (facade.Life, facade.OperatorProvisioningInfo, error) {
	doc, m := open(file, data)
	m.only("life", "version", "image", "tags", "storage", "addresses")

	life := facade.Alive
	if m.get("life") != nil {
		life = facade.Life(m.text("life"))
		if life.Validate() != nil {
			m.reject("life", wantLife)
		}
	}
	info := facade.OperatorProvisioningInfo{
		ImageDetails: facade.ImageDetails{RegistryPath: m.text("image")},
		Version:      m.text("version"),
		Tags:         m.pairs("tags"),
		CharmStorage: parseStorage(m.mapping("storage")),
	}
	if info.Version != "" && !versionForm.MatchString(info.Version) {
		m.reject("version", wantVersion)
	}
	for _, addr := range m.texts("addresses") {
		if facade.ValidateAddress(addr.text) != nil {
			doc.fail(addr.line, "addresses: %s", wantAddress)
		}
		info.APIAddresses = append(info.APIAddresses, addr.text)
	}
	if err := doc.err(); err != nil {
		return "", facade.OperatorProvisioningInfo{}, err
	}
	return life, info, nil
}

// parseStorage reads what is under "storage"; nil is none.
func parseStorage(m *mapping) *facade.CharmStorage {
	if m == nil {
		return nil
	}
	m.only("name", "size", "provider", "attributes")
	s := &facade.CharmStorage{
		StorageName: m.text("name"),
		Provider:    m.text("provider"),
		Attributes:  m.pairs("attributes"),
	}
	if s.StorageName == "" {
		s.StorageName = "charm"
	}
	if s.Provider == "" {
		m.reject("provider", "want the kind of storage")
	}
	// In MiB: up to a pebibyte.
	size, ok := m.number("size", 1<<30)
	if !ok {
		m.reject("size", "want a size in MiB")
	}
	s.Size = size
	return s
}

// parseCharm reads a charm's metadata.yaml and manifest.yaml; a charm of the
// older format has no manifest, which is empty then.
func parseCharm(metadataFile string, metadata []byte, manifestFile string, manifest []byte) (facade.CharmInfo, error) {
	info, err := ParseMetadata(metadataFile, metadata)
	if err != nil {
		return facade.CharmInfo{}, err
	}
	info.Bases, err = ParseManifest(manifestFile, manifest)
	if err != nil {
		return facade.CharmInfo{}, err
	}
	return info, nil
}

// ParseMetadata reads name and series from a charm's metadata.yaml; the rest is
// of no concern here.
func ParseMetadata(file string, data []byte) (facade.CharmInfo, error) {
	doc, m := open(file, data)
	info := facade.CharmInfo{Name: m.text("name")}
	if info.Name == "" {
		m.reject("name", "want the charm's name")
	}
	for _, series := range m.texts("series") {
		info.Series = append(info.Series, series.text)
	}
	if slices.Contains(info.Series, "") {
		m.reject("series", "want names that are not empty")
	}
	if err := doc.err(); err != nil {
		return facade.CharmInfo{}, err
	}
	return info, nil
}

// ParseManifest reads the bases from a charm's manifest.yaml.
func ParseManifest(file string, data []byte) ([]facade.Base, error) {
	doc, m := open(file, data)
	var bases []facade.Base
	for _, node := range m.list("bases") {
		b := doc.mapping(node)
		base := facade.Base{Name: b.text("name"), Channel: b.text("channel")}
		if base.Name == "" {
			b.reject("name", "want the base's name")
		}
		for _, arch := range b.texts("architectures") {
			base.Architectures = append(base.Architectures, arch.text)
		}
		bases = append(bases, base)
	}
	if err := doc.err(); err != nil {
		return nil, err
	}
	return bases, nil
}

// noCharm is the error of an application whose charm is not there.
func noCharm(app string) error { return errors.NotFoundf("charm of application %q", app) }
