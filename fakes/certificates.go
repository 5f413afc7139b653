package fakes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	"github.com/sutler-dev/sutler/facade"
)

// Flaw is what is wrong with the certificates that a [Controller] issues. The
// zero value is nothing.
type Flaw string

const (
	// WrongKey: the private key belongs to another certificate.
	WrongKey Flaw = "wrong key"
	// WrongCA: certificate and CA certificate fit each other, and are not
	// the controller's.
	WrongCA Flaw = "wrong CA"
	// Unchained: the CA certificate is the controller's, and the
	// certificate was signed by another.
	Unchained Flaw = "unchained"
	// WrongName: the certificate names another application.
	WrongName Flaw = "wrong name"
	// Expired: the certificate ended an hour ago.
	Expired Flaw = "expired"
	// NotYetValid: the certificate begins in an hour.
	NotYetValid Flaw = "not yet valid"
	// ShortLived: the certificate has a tenth of its life left.
	ShortLived Flaw = "short-lived"
	// Garbage: the certificate is not PEM.
	Garbage Flaw = "garbage"
	// GarbageKey: the private key is not PEM.
	GarbageKey Flaw = "garbage key"
	// NoCACert, NoCert and NoKey: that field is empty.
	NoCACert Flaw = "no CA certificate"
	NoCert   Flaw = "no certificate"
	NoKey    Flaw = "no key"
)

// Flaws returns every flaw there is, for tests that try them all.
func Flaws() []Flaw {
	return []Flaw{
		WrongKey, WrongCA, Unchained, WrongName, Expired, NotYetValid,
		ShortLived, Garbage, GarbageKey, NoCACert, NoCert, NoKey,
	}
}

// DefaultCertificateLife is for how long a certificate is valid when nothing
// else was said.
const DefaultCertificateLife = 365 * 24 * time.Hour

// authority is a CA, with the one key that all of its certificates share:
// making a key takes longer than everything else here.
type authority struct {
	key, leafKey *ecdsa.PrivateKey
	leafKeyPEM   string
	cert         *x509.Certificate
	pem          string
	serial       int64
}

func newAuthority(now time.Time) *authority {
	a := &authority{key: newKey(), leafKey: newKey(), serial: 1}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(a.serial),
		Subject:               pkix.Name{CommonName: "controller CA"},
		NotBefore:             now.Add(-24 * time.Hour),
		NotAfter:              now.AddDate(20, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))
	a.cert = must(x509.ParseCertificate(der))
	a.pem = encode("CERTIFICATE", der)
	a.leafKeyPEM = encode("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(a.leafKey)))
	return a
}

// issue returns a certificate for the name, valid between the two times.
func (a *authority) issue(name string, from, to time.Time) facade.OperatorCertificate {
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		NotBefore:    from,
		NotAfter:     to,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key))
	return facade.OperatorCertificate{
		CACert:     a.pem,
		Cert:       encode("CERTIFICATE", der),
		PrivateKey: facade.NewSecret(a.leafKeyPEM),
	}
}

// issueFlawed is issue for a certificate that is now given for the life, with
// the flaw. other is a CA of its own.
func (a *authority) issueFlawed(flaw Flaw, other func() *authority, name string, now time.Time, life time.Duration) facade.OperatorCertificate {
	// Dated back, for clocks that differ, by no more than what keeps the
	// certificate young.
	from := now.Add(-min(time.Hour, life/10))
	to := now.Add(life)
	switch flaw {
	case WrongName:
		name = "not-" + name
	case Expired:
		from, to = now.Add(-24*time.Hour), now.Add(-time.Hour)
	case NotYetValid:
		from = now.Add(time.Hour)
		to = from.Add(life)
	case ShortLived:
		from, to = now.Add(-life*9/10), now.Add(life/10)
	}
	c := a.issue(name, from, to)
	switch flaw {
	case WrongKey:
		c.PrivateKey = facade.NewSecret(other().leafKeyPEM)
	case WrongCA:
		c = other().issue(name, from, to)
	case Unchained:
		c = other().issue(name, from, to)
		c.CACert = a.pem
	case Garbage:
		c.Cert = "this is no certificate"
	case GarbageKey:
		c.PrivateKey = facade.NewSecret("this is no key")
	case NoCACert:
		c.CACert = ""
	case NoCert:
		c.Cert = ""
	case NoKey:
		c.PrivateKey = facade.Secret{}
	}
	return c
}

func newKey() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// must is for what fails only by a mistake in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("fakes: %v", err))
	}
	return v
}
