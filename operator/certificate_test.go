package operator_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// start is when the certificates of these tests begin, and life how long an
// operator's lasts: the 90 days that are usual.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const life = 90 * 24 * time.Hour

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newAuthority returns a CA that signs itself, or one that parent signed.
func newAuthority(t testing.TB, name string, parent *authority) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: start.Add(-life), NotAfter: start.Add(10 * life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{key: newKey(t)}
	if parent == nil {
		parent = &authority{cert: template, key: a.key}
	}
	a.cert, a.pem = sign(t, template, parent, a.key.Public())
	return a
}

func sign(t testing.TB, template *x509.Certificate, by *authority, public any) (*x509.Certificate, string) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, public, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// issue returns the info of an operator called mysql, as change has it.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) operator.Info {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "operator"}, DNSNames: []string{"mysql"},
		NotBefore: start, NotAfter: start.Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(t)
	_, cert := sign(t, template, a, key.Public())
	return operator.Info{CACert: a.pem, Cert: cert, PrivateKey: keyPEM(t, key)}
}

func keyPEM(t testing.TB, key any) facade.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return facade.NewSecret(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

func TestCheckCertificateNamesTheViolatedRule(t *testing.T) {
	ca, other := newAuthority(t, "ca", nil), newAuthority(t, "ca", nil)
	middle := newAuthority(t, "middle", ca)
	good := ca.issue(t, nil)
	named := func(cn string, dns ...string) operator.Info {
		return ca.issue(t, func(c *x509.Certificate) { c.Subject.CommonName, c.DNSNames = cn, dns })
	}
	with := func(change func(*operator.Info)) operator.Info {
		info := good
		change(&info)
		return info
	}
	const (
		parse = "does not parse"
		key   = "key does not match"
		name  = "does not name the application"
		chain = "does not chain to the CA"
	)
	day := start.Add(24 * time.Hour)
	for _, test := range []struct {
		name string
		info operator.Info
		ca   string
		now  time.Time
		want string
	}{
		{"good", good, ca.pem, day, ""},
		{"the first moment", good, ca.pem, start, ""},
		{"the last moment", good, ca.pem, start.Add(life), ""},
		{"due is still good", good, ca.pem, start.Add(life - time.Hour), ""},
		{"another CA in the info", with(func(i *operator.Info) { i.CACert = other.pem }), ca.pem, day, ""},
		{"a CA among others", good, other.pem + ca.pem, day, ""},
		{"a CA with notes", good, "notes\n" + ca.pem + "more notes\n", day, ""},
		{"a certificate with notes", with(func(i *operator.Info) { i.Cert = "notes\n" + i.Cert }), ca.pem, day, ""},

		{"nothing", operator.Info{}, ca.pem, day, parse},
		{"no certificate", with(func(i *operator.Info) { i.Cert = "" }), ca.pem, day, parse},
		{"no PEM", with(func(i *operator.Info) { i.Cert = "certificate" }), ca.pem, day, parse},
		{"half a certificate", with(func(i *operator.Info) { i.Cert = i.Cert[:len(i.Cert)/2] }), ca.pem, day, parse},
		{"PEM of nonsense", with(func(i *operator.Info) { i.Cert = pemOf("CERTIFICATE", "nonsense") }), ca.pem, day, parse},
		{"nonsense behind it", with(func(i *operator.Info) { i.Cert += pemOf("CERTIFICATE", "nonsense") }), ca.pem, day, parse},
		{"a key in its place", with(func(i *operator.Info) { i.Cert = i.PrivateKey.Reveal() }), ca.pem, day, parse},

		{"no key", with(func(i *operator.Info) { i.PrivateKey = facade.Secret{} }), ca.pem, day, key},
		{"another key", with(func(i *operator.Info) { i.PrivateKey = keyPEM(t, newKey(t)) }), ca.pem, day, key},
		{"a key of another kind", with(func(i *operator.Info) { i.PrivateKey = ed25519Key(t) }), ca.pem, day, key},
		{"a certificate for a key", with(func(i *operator.Info) { i.PrivateKey = facade.NewSecret(i.Cert) }), ca.pem, day, key},
		{"a key of nonsense", with(func(i *operator.Info) { i.PrivateKey = facade.NewSecret(pemOf("PRIVATE KEY", "nonsense")) }), ca.pem, day, key},

		{"by common name", named("mysql"), ca.pem, day, ""},
		{"by tag", named("application-mysql"), ca.pem, day, ""},
		{"among other names", named("x", "postgresql", "mysql"), ca.pem, day, ""},
		{"another name", named("postgresql", "postgresql"), ca.pem, day, name},
		{"no name", named(""), ca.pem, day, name},
		{"a longer name", named("mysql-router", "mysql.example.com"), ca.pem, day, name},
		{"the tag as a DNS name", named("x", "application-mysql"), ca.pem, day, name},
		{"a wildcard", named("*", "*"), ca.pem, day, name},

		{"before its life", good, ca.pem, start.Add(-time.Second), "not yet valid"},
		{"after its life", good, ca.pem, start.Add(life + time.Second), "expired"},
		{"expired and of another CA", good, other.pem, start.Add(2 * life), "expired"},
		{"a life that ends before it begins", ca.issue(t, func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Hour) }), ca.pem, day, "expired"},

		{"a CA that was replaced", good, other.pem, day, chain},
		{"no CA", good, "", day, chain},
		{"a CA of nonsense", good, "nonsense", day, chain},
		{"itself as CA", good, good.Cert, day, ""},
		{"itself as CA and nothing else", selfSigned(t), ca.pem, day, chain},
		{"a CA that expired", func() operator.Info {
			return ca.issue(t, func(c *x509.Certificate) { c.NotAfter = start.Add(20 * life) })
		}(), ca.pem, start.Add(11 * life), chain},
		{"over an intermediate one", func() operator.Info {
			info := middle.issue(t, nil)
			info.Cert += middle.pem
			return info
		}(), ca.pem, day, ""},
		{"over one that is missing", middle.issue(t, nil), ca.pem, day, chain},
		{"by one that is no CA", leafAsCA(t, ca), ca.pem, day, chain},
	} {
		t.Run(test.name, func(t *testing.T) {
			validity, err := operator.CheckCertificate(test.info, "mysql", test.ca, test.now)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if want := start.Add(60 * 24 * time.Hour); !validity.RenewAt.Equal(want) {
					t.Errorf("due at %v, want %v", validity.RenewAt, want)
				}
				if want := start.Add(life); !validity.Expires.Equal(want) {
					t.Errorf("expires at %v, want %v", validity.Expires, want)
				}
				return
			}
			if !errors.Is(err, errors.NotValid) || validity != (operator.Validity{}) {
				t.Fatalf("CheckCertificate = %v, %v", validity, err)
			}
			if got, want := err.Error(), "operator certificate ("+test.want+") not valid"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestCheckCertificateTakesEveryUsualKey(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	ec := newKey(t)
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		public any
		key    facade.Secret
	}{
		"EC, PKCS 8":      {ec.Public(), keyPEM(t, ec)},
		"EC, SEC 1":       {ec.Public(), facade.NewSecret(pemOf("EC PRIVATE KEY", string(sec1)))},
		"RSA, PKCS 8":     {r.Public(), keyPEM(t, r)},
		"RSA, PKCS 1":     {r.Public(), facade.NewSecret(pemOf("RSA PRIVATE KEY", string(x509.MarshalPKCS1PrivateKey(r))))},
		"Ed25519, PKCS 8": {edPublic, keyPEM(t, ed)},
	} {
		t.Run(name, func(t *testing.T) {
			_, cert := sign(t, &x509.Certificate{
				SerialNumber: big.NewInt(3), DNSNames: []string{"mysql"}, NotBefore: start, NotAfter: start.Add(life),
			}, ca, test.public)
			info := operator.Info{Cert: cert, PrivateKey: test.key}
			if _, err := operator.CheckCertificate(info, "mysql", ca.pem, start); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRenewalIsDueWithAThirdOfTheLifeLeft holds the arithmetic, for lives that
// are no multiple of three and for those that no time.Duration can hold.
func TestRenewalIsDueWithAThirdOfTheLifeLeft(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	for _, life := range []time.Duration{time.Hour, 10 * time.Second, 365 * 24 * time.Hour} {
		info := ca.issue(t, func(c *x509.Certificate) { c.NotAfter = start.Add(life) })
		validity, err := operator.CheckCertificate(info, "mysql", ca.pem, start)
		if err != nil {
			t.Fatal(err)
		}
		if left := start.Add(life).Sub(validity.RenewAt); left != life/3 {
			t.Errorf("of %v %v are left", life, left)
		}
	}
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	info := ca.issue(t, func(c *x509.Certificate) { c.NotAfter = end })
	validity, err := operator.CheckCertificate(info, "mysql", ca.pem, start)
	if err != nil {
		t.Fatal(err)
	}
	if !validity.RenewAt.After(start.AddDate(1000, 0, 0)) || !validity.RenewAt.Before(end) {
		t.Errorf("one that lasts for ever is due at %v", validity.RenewAt)
	}
}

func TestEmptyApplicationIsNamedByNothing(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	info := ca.issue(t, func(c *x509.Certificate) { c.Subject.CommonName, c.DNSNames = "application-", nil })
	if _, err := operator.CheckCertificate(info, "", ca.pem, start); !errors.Is(err, errors.NotValid) {
		t.Errorf("CheckCertificate = %v", err)
	}
}

func pemOf(kind, content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(content)}))
}

func ed25519Key(t testing.TB) facade.Secret {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keyPEM(t, key)
}

// selfSigned is a certificate that nobody vouches for.
func selfSigned(t testing.TB) operator.Info {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(4), DNSNames: []string{"mysql"}, NotBefore: start, NotAfter: start.Add(life),
	}
	_, cert := sign(t, template, &authority{cert: template, key: key}, key.Public())
	return operator.Info{Cert: cert, PrivateKey: keyPEM(t, key)}
}

// leafAsCA is signed by the certificate of an operator, which may not sign.
func leafAsCA(t testing.TB, ca *authority) operator.Info {
	t.Helper()
	leaf := &authority{key: newKey(t)}
	leaf.cert, leaf.pem = sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "postgresql"}, NotBefore: start, NotAfter: start.Add(life),
	}, ca, leaf.key.Public())
	info := leaf.issue(t, nil)
	info.Cert += leaf.pem
	return info
}

// FuzzCheckCertificate holds that nothing makes CheckCertificate panic or repeat
// what it was given.
func FuzzCheckCertificate(f *testing.F) {
	ca := newAuthority(f, "ca", nil)
	info := ca.issue(f, nil)
	f.Add(info.Cert, info.PrivateKey.Reveal(), "mysql", ca.pem, start.Unix())
	f.Add(info.Cert+info.Cert, info.PrivateKey.Reveal(), "", "", int64(0))
	f.Add(pemOf("CERTIFICATE", "nonsense"), pemOf("PRIVATE KEY", "nonsense"), "mysql", pemOf("CERTIFICATE", ""), int64(-1))
	rules := []string{
		"does not parse", "key does not match", "does not name the application", "not yet valid", "expired", "does not chain to the CA",
	}
	f.Fuzz(func(t *testing.T, cert, key, app, caCert string, now int64) {
		_, err := operator.CheckCertificate(operator.Info{Cert: cert, PrivateKey: facade.NewSecret(key)}, app, caCert, time.Unix(now, 0))
		if err == nil {
			return
		}
		for _, rule := range rules {
			if errors.Is(err, errors.NotValid) && err.Error() == "operator certificate ("+rule+") not valid" {
				return
			}
		}
		t.Fatalf("the error says %q", err)
	})
}

func TestErrorsOfCertificatesHoldNoKey(t *testing.T) {
	ca := newAuthority(t, "ca", nil)
	info := ca.issue(t, nil)
	info.PrivateKey = facade.NewSecret(strings.ReplaceAll(info.PrivateKey.Reveal(), "PRIVATE", canary))
	_, err := operator.CheckCertificate(info, "mysql", ca.pem, start)
	if err == nil || strings.Contains(errors.ErrorStack(err), canary) {
		t.Errorf("CheckCertificate = %s", errors.ErrorStack(err))
	}
}

func BenchmarkCheckCertificate(b *testing.B) {
	ca := newAuthority(b, "ca", nil)
	info := ca.issue(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := operator.CheckCertificate(info, "mysql", ca.pem, start); err != nil {
			b.Fatal(err)
		}
	}
}
