package controller

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/files"
	"github.com/sutler-dev/sutler/facade"
)

const (
	caLife = 10 * 365 * 24 * time.Hour
	// serverLife is that of the endpoint's own, which every start of the
	// agent renews and nobody else.
	serverLife = 5 * 365 * 24 * time.Hour
	// caReserve is what must be left of the CA's life when the agent
	// starts; a new CA is made otherwise, and every operator gets a new
	// certificate.
	caReserve = serverLife
	// backdate lets a certificate be valid for clocks that are a little
	// behind. Of a short life it is a tenth.
	backdate = 5 * time.Minute
)

// authority is the controller's own CA.
type authority struct {
	cert    *x509.Certificate
	certPEM string
	key     crypto.Signer
}

// openAuthority reads the CA at path, or makes one there: certificate and key
// in one file, so that there are never two halves of different ones.
func openAuthority(path string, now time.Time) (*authority, error) {
	data, err := files.Read(path, maxCA)
	switch {
	case errors.Is(err, errors.NotFound):
		return createAuthority(path, now)
	case err != nil:
		return nil, err
	}
	pair, err := tls.X509KeyPair(data, data)
	if err != nil {
		return nil, errors.NotValidf("%s", caFile) // the error might quote
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.NotValidf("%s (want a CA's certificate and its key)", caFile)
	}
	if now.Add(caReserve).After(pair.Leaf.NotAfter) {
		return createAuthority(path, now)
	}
	return &authority{cert: pair.Leaf, certPEM: certificatePEM(pair.Leaf.Raw), key: key}, nil
}

func createAuthority(path string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, errors.Trace(err)
	}
	template := &x509.Certificate{
		// A name of its own, so that a CA and its successor differ.
		Subject:               pkix.Name{CommonName: "sutler example CA " + now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.Trace(err)
	}
	a := &authority{cert: cert, certPEM: certificatePEM(der), key: key}
	keyText, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	if err := files.Write(path, []byte(a.certPEM+keyText.Reveal())); err != nil {
		return nil, err
	}
	return a, nil
}

// issue returns a certificate and its key, both PEM, for a server of these
// names and addresses.
func (a *authority) issue(now time.Time, life time.Duration, names []string, ips ...net.IP) (facade.OperatorCertificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return facade.OperatorCertificate{}, errors.Trace(err)
	}
	template := &x509.Certificate{
		NotBefore:   now.Add(-min(backdate, life/10)),
		NotAfter:    now.Add(life),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    names,
		IPAddresses: ips,
	}
	// A common name has 64 bytes at most; the DNS names are what counts.
	if len(names[0]) <= 64 {
		template.Subject.CommonName = names[0]
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return facade.OperatorCertificate{}, errors.Trace(err)
	}
	keyText, err := keyPEM(key)
	if err != nil {
		return facade.OperatorCertificate{}, err
	}
	return facade.OperatorCertificate{CACert: a.certPEM, Cert: certificatePEM(der), PrivateKey: keyText}, nil
}

func certificatePEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func keyPEM(key crypto.PrivateKey) (facade.Secret, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return facade.Secret{}, errors.Trace(err)
	}
	return facade.NewSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))), nil
}
