package operator

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"

	"github.com/juju/errors"
)

// Validity is for how long a certificate can be used.
type Validity struct {
	// RenewAt is when it falls due for renewal: when a third of its life is
	// left, which may be past. A certificate that is due still works.
	RenewAt time.Time
	// Expires is when it ends to work.
	Expires time.Time
}

// CheckCertificate tells whether the operator of app can serve with the
// certificate of info at the time now. If so it returns for how long. If not it
// returns an errors.NotValid that names the violated rule and quotes nothing of
// info.
//
// caCert is the controller's present CA, one certificate or several in a row;
// info.CACert, which is what the CA was once, does not count. The certificate
// names app by a DNS name equal to it, or by the common name app or
// "application-" and app.
func CheckCertificate(info Info, app, caCert string, now time.Time) (Validity, error) {
	chain, err := parseCertificates(info.Cert)
	if err != nil {
		return Validity{}, violation("does not parse")
	}
	in := certificateInput{
		info: info, leaf: chain[0], intermediates: chain[1:],
		app: app, caCert: caCert, now: now,
	}
	for _, rule := range certificateRules {
		if rule.violated(in) {
			return Validity{}, violation(rule.name)
		}
	}
	life := in.leaf.NotAfter.Sub(in.leaf.NotBefore)
	return Validity{RenewAt: in.leaf.NotAfter.Add(-life / 3), Expires: in.leaf.NotAfter}, nil
}

func violation(rule string) error {
	return errors.NotValidf("operator certificate (%s)", rule)
}

// certificateInput is what the rules judge.
type certificateInput struct {
	info          Info
	leaf          *x509.Certificate
	intermediates []*x509.Certificate
	app           string
	caCert        string
	now           time.Time
}

// certificateRules are judged in this order, and the first that is violated is
// the one that is reported. Each is named after the violated state. Expiry goes
// before the chain, since an expired certificate has no valid chain either.
var certificateRules = []struct {
	name     string
	violated func(certificateInput) bool
}{
	{"key does not match", keyDoesNotMatch},
	{"does not name the application", doesNotNameApplication},
	{"not yet valid", notYetValid},
	{"expired", expired},
	{"does not chain to the CA", doesNotChain},
}

func keyDoesNotMatch(in certificateInput) bool {
	_, err := tls.X509KeyPair([]byte(in.info.Cert), []byte(in.info.PrivateKey.Reveal()))
	return err != nil
}

func doesNotNameApplication(in certificateInput) bool {
	cn := in.leaf.Subject.CommonName
	named := in.app != "" &&
		(slices.Contains(in.leaf.DNSNames, in.app) || cn == in.app || cn == "application-"+in.app)
	return !named
}

func notYetValid(in certificateInput) bool { return in.now.Before(in.leaf.NotBefore) }

func expired(in certificateInput) bool { return in.now.After(in.leaf.NotAfter) }

func doesNotChain(in certificateInput) bool {
	// Never nil, which would stand for the roots of this machine.
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(in.caCert))
	for _, c := range in.intermediates {
		intermediates.AddCert(c)
	}
	_, err := in.leaf.Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: intermediates,
		CurrentTime:   in.now,
		// What the certificate may be used for is the controller's
		// business.
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err != nil
}

// parseCertificates returns all certificates of a PEM text: one at least.
func parseCertificates(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.NotFoundf("certificate")
	}
	return out, nil
}
