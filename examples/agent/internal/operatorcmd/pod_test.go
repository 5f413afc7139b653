package operatorcmd

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// inPod lays the files out as they are in a pod: mounted, for a group, and with no
// agent.conf.
func (w *world) inPod() {
	w.t.Helper()
	w.writeConf(templateConf, func(*agentconf.Config) {})
	for _, name := range []string{templateConf, infoFile} {
		if err := os.Chmod(filepath.Join(w.dir, name), 0o440); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) read(name string) []byte {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

func TestOperatorInPodMakesItsConfFromTheTemplateOnce(t *testing.T) {
	w := newWorld(t)
	w.storePassword("the-canary")
	w.inPod()
	stop := w.run()
	w.expectActive()
	if err := stop(); err != nil {
		t.Error(err)
	}
	own := w.read(ownConf)
	if !bytes.Equal(own, w.read(templateConf)) {
		t.Error("agent.conf is not the template")
	}
	if info, err := os.Stat(filepath.Join(w.dir, ownConf)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want 0600", info.Mode(), err)
	}

	// Another template changes nothing of what the operator has, and a volume
	// that was mounted anew belongs to a group.
	if err := os.Chmod(filepath.Join(w.dir, ownConf), 0o660); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.dir, templateConf)); err != nil {
		t.Fatal(err)
	}
	w.writeConf(templateConf, func(c *agentconf.Config) { c.OldPassword = facade.NewSecret("another") })
	logins, _ := w.operator("logins").(int)
	w.run()
	w.eventually("another log-in", func() bool { n, _ := w.operator("logins").(int); return n > logins })
	if !bytes.Equal(own, w.read(ownConf)) {
		t.Error("agent.conf was overwritten")
	}
	if got := w.operator("refused"); got != 0 {
		t.Errorf("got %v refused, want its own password first", got)
	}
}

func TestDamagedConfIsNotMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.inPod()
	write(t, filepath.Join(w.dir, ownConf), "the-canary")
	if err := w.run()(); err == nil {
		t.Error("want an error")
	}
	if got := string(w.read(ownConf)); got != "the-canary" {
		t.Errorf("agent.conf became %q", got)
	}
}

func TestOperatorTellsTheAddressThatItIsReachedBy(t *testing.T) {
	w := newWorld(t)
	w.storePassword("the-canary")
	w.inPod()
	w.runAs(func(c *Config) { c.Listen, c.Host = "0.0.0.0:0", "127.0.0.2" })
	w.expectActive()
	address, _ := w.operator("address").(string)
	if host, port, err := net.SplitHostPort(address); err != nil || host != "127.0.0.2" || port == "0" {
		t.Fatalf("got address %q, %v", address, err)
	}

	// Probes: one that only connects, and one that asks.
	conn, err := net.DialTimeout("tcp", address, deadline)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	client := http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		Timeout:   deadline,
	}
	resp, err := client.Get("https://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %s", resp.Status)
	}
	w.eventually("the first probe was noticed", func() bool { return strings.Contains(w.log.String(), "handshake error") })
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, "handshake error") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("a probe makes noise: %s", line)
		}
	}
}

func TestPortThatIsTakenEndsTheOperator(t *testing.T) {
	w := newWorld(t)
	w.inPod()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = Run(t.Context(), Config{
		Dir: w.dir, Application: "db", Listen: other.Addr().String(), Clock: clock.WallClock, Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "opening the operator's port") {
		t.Errorf("got %v", err)
	}
}
