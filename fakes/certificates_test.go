package fakes_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// judge says what a client that trusts the CA has against the certificate of
// the application; "" is nothing.
func judge(t *testing.T, c facade.OperatorCertificate, ca, app string, now time.Time) string {
	t.Helper()
	if err := c.Validate(); err != nil {
		return "empty"
	}
	if c.CACert != ca {
		return "other CA"
	}
	pair, err := tls.X509KeyPair([]byte(c.Cert), []byte(c.PrivateKey.Reveal()))
	if err != nil {
		return "no pair"
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	var invalid x509.CertificateInvalidError
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: app, CurrentTime: now})
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "not in its time"
	case errors.As(err, new(x509.HostnameError)):
		return "other name"
	case err != nil:
		return "not chained"
	}
	if left := pair.Leaf.NotAfter.Sub(now); left < pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)/3 {
		return "soon over"
	}
	return ""
}

func TestFlawedCertificatesAreWrongInTheOneWay(t *testing.T) {
	want := map[fakes.Flaw]string{
		"":                "",
		fakes.WrongKey:    "no pair",
		fakes.WrongCA:     "other CA",
		fakes.Unchained:   "not chained",
		fakes.WrongName:   "other name",
		fakes.Expired:     "not in its time",
		fakes.NotYetValid: "not in its time",
		fakes.ShortLived:  "soon over",
		fakes.Garbage:     "no pair",
		fakes.GarbageKey:  "no pair",
		fakes.NoCACert:    "empty",
		fakes.NoCert:      "empty",
		fakes.NoKey:       "empty",
	}
	if len(fakes.Flaws()) != len(want)-1 {
		t.Errorf("%d flaws", len(fakes.Flaws()))
	}
	long := strings.Repeat("a", facade.MaxApplicationName)
	_, c, _ := world("a", "b", long)
	for _, flaw := range append(fakes.Flaws(), "") {
		c.SetFlaw(flaw, "a")
		for app, want := range map[string]string{"a": want[flaw], "b": "", long: ""} {
			cert, err := c.IssueOperatorCertificate(t.Context(), app)
			if err != nil {
				t.Fatal(err)
			}
			if got := judge(t, cert, c.CACert(), app, time.Now()); got != want {
				t.Errorf("flaw %q, application %.5s: %q, want %q", flaw, app, got, want)
			}
		}
	}
	c.SetFlaw(fakes.WrongName)
	for app, want := range map[string]string{"a": "", "b": "other name"} {
		cert, err := c.IssueOperatorCertificate(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		if got := judge(t, cert, c.CACert(), app, time.Now()); got != want {
			t.Errorf("flaw for all, application %s: %q, want %q", app, got, want)
		}
	}
}

func TestCertificatesLiveAsLongAsSaid(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, c, _ := world("a")
		for _, life := range []time.Duration{time.Minute, 24 * time.Hour, fakes.DefaultCertificateLife} {
			c.SetCertificateLife(life)
			cert, err := c.IssueOperatorCertificate(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			for age, want := range map[time.Duration]string{
				0: "", life / 2: "", life * 9 / 10: "soon over", life + time.Second: "not in its time",
			} {
				if got := judge(t, cert, c.CACert(), "a", time.Now().Add(age)); got != want {
					t.Errorf("life %v, after %v: %q, want %q", life, age, got, want)
				}
			}
		}
	})
}

func TestRotationMakesOldCertificatesWorthless(t *testing.T) {
	_, c, _ := world("a")
	agent := fakes.NewAgent(c.CACert())
	old, err := c.IssueOperatorCertificate(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	c.RotateCA()
	if agent.CACert() == c.CACert() {
		t.Fatal("the CA is the same")
	}
	agent.SetCACert(c.CACert())
	if got := judge(t, old, agent.CACert(), "a", time.Now()); got != "other CA" {
		t.Errorf("old certificate: %q", got)
	}
	now, err := c.IssueOperatorCertificate(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := judge(t, now, agent.CACert(), "a", time.Now()); got != "" {
		t.Errorf("new certificate: %q", got)
	}
}

func BenchmarkNewController(b *testing.B) {
	for b.Loop() {
		fakes.NewController(fakes.NewFaults(clock.WallClock))
	}
}
