package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"
	clientcmd "k8s.io/client-go/tools/clientcmd/api"

	kubeconfig "k8s.io/client-go/tools/clientcmd"
)

// Who logs in to the API server, and as what. Rights come with the names, from
// the API server's own bootstrap roles; only the administrator's come with a
// group.
func users() []user {
	return []user{
		{"admin", "admin", "system:masters"},
		{"controller-manager", "system:kube-controller-manager", ""},
		{"scheduler", "system:kube-scheduler", ""},
		{"node", "system:node:" + NodeName, "system:nodes"},
		{"proxy", "system:kube-proxy", ""},
	}
}

type user struct{ file, name, group string }

// NodeName is the name of the real node, which the user "node" may act for.
const NodeName = "node1"

// How long certificates are good for. The test bed is made anew more often.
const validity = 90 * 24 * time.Hour

// writePKI writes the certificates, the service accounts' key, the tokens and a
// kubeconfig for each user.
func writePKI(state State) error {
	ca, err := newAuthority()
	if err != nil {
		return errors.Annotate(err, "making the certificate authority")
	}
	cert, key, err := ca.issue(state.Address)
	if err != nil {
		return errors.Annotate(err, "making the API server's certificate")
	}
	accounts, err := newKey()
	if err != nil {
		return errors.Annotate(err, "making the service accounts' key")
	}
	accountsPEM, err := keyPEM(accounts)
	if err != nil {
		return errors.Trace(err)
	}
	files := map[string][]byte{
		"ca.crt": ca.pem, "api.crt": cert, "api.key": key,
		// The private key serves as the public one too.
		"accounts.key": accountsPEM,
	}

	var tokens strings.Builder
	for _, user := range users() {
		token := rand.Text()
		tokens.WriteString(strings.Join([]string{token, user.name, user.file, `"` + user.group + `"`}, ",") + "\n")
		config := clientcmd.NewConfig()
		config.Clusters["testbed"] = &clientcmd.Cluster{Server: state.server(), CertificateAuthorityData: ca.pem}
		config.AuthInfos[user.file] = &clientcmd.AuthInfo{Token: token}
		config.Contexts["testbed"] = &clientcmd.Context{Cluster: "testbed", AuthInfo: user.file}
		config.CurrentContext = "testbed"
		// This writes with mode 0600.
		if err := kubeconfig.WriteToFile(*config, state.Kubeconfig(user.file)); err != nil {
			return errors.Annotatef(err, "writing the kubeconfig of %s", user.file)
		}
	}
	files["tokens.csv"] = []byte(tokens.String())

	for name, data := range files {
		if err := os.WriteFile(filepath.Join(state.Dir, name), data, 0o600); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// An authority signs the API server's certificate.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, errors.Trace(err)
	}
	template := certificate("sutler-testbed")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &authority{cert: cert, key: key, pem: certPEM(der)}, nil
}

// issue returns a certificate for the API server at the address, and its key.
func (a *authority) issue(address string) (cert, key []byte, err error) {
	private, err := newKey()
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	template := certificate("kube-apiserver")
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	template.IPAddresses = []net.IP{net.ParseIP(address), net.ParseIP("127.0.0.1"), net.ParseIP(kubernetesIP)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	key, err = keyPEM(private)
	return certPEM(der), key, errors.Trace(err)
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		// A clock that is set back a little must not spoil it.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(validity),
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
