package kvmtest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
	"github.com/sutler-dev/sutler/facade"
)

// guest is a virtual machine on an image, with a seed.
type guest struct {
	d       *kvmtest.Daemon
	name    string
	console string
	began   time.Time
}

// start starts a guest on the network "default" with user data.
func start(t *testing.T, d *kvmtest.Daemon, name, userData string) *guest {
	t.Helper()
	image := kvmtest.Image(t)
	dir := t.TempDir()
	g := &guest{d: d, name: name, console: filepath.Join(dir, "console")}
	disk, seed := filepath.Join(dir, "disk.qcow2"), filepath.Join(dir, "seed.iso")
	out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", "-b", image.Path, "-F", "qcow2", disk, "1G").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := machine.Seed(machine.SeedConfig{InstanceID: name, UserData: facade.NewSecret(userData)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(seed, data, 0o600); err != nil {
		t.Fatal(err)
	}
	definition := filepath.Join(dir, "domain.xml")
	if err := os.WriteFile(definition, fmt.Appendf(nil, `<domain type="qemu"><name>%s</name>
<memory unit="MiB">192</memory><vcpu>1</vcpu><os><type arch="x86_64" machine="q35">hvm</type></os>
<features><acpi/><apic/></features><devices>
<disk type="file" device="disk"><driver name="qemu" type="qcow2"/><source file=%q/><target dev="vda" bus="virtio"/></disk>
<disk type="file" device="cdrom"><driver name="qemu" type="raw"/><source file=%q/><target dev="sda" bus="scsi"/><readonly/></disk>
<controller type="scsi" model="virtio-scsi"/><controller type="usb" model="none"/>
<interface type="network"><source network="default"/><model type="virtio"/></interface>
<serial type="file"><source path=%q/></serial></devices></domain>`, name, disk, seed, g.console), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Run(t, "virsh", "define", definition)
	g.began = time.Now()
	d.Run(t, "virsh", "start", name)
	return g
}

// await returns what the console says after a prefix, once it does.
func (g *guest) await(t *testing.T, prefix string) string {
	t.Helper()
	said := regexp.MustCompile(`(?m)^guest: ` + prefix + ` ([^\r\n]*)[\r\n]`)
	var found []string
	kvmtest.Eventually(t, "guest: "+prefix, func() bool {
		text, _ := os.ReadFile(g.console)
		found = said.FindStringSubmatch(string(text))
		return found != nil
	})
	t.Logf("%s %s: %.1fs after its start", prefix, found[1], time.Since(g.began).Seconds())
	return found[1]
}

func (g *guest) state(t *testing.T) string {
	t.Helper()
	return g.d.Run(t, "virsh", "domstate", g.name)
}

func newClient(t *testing.T, d *kvmtest.Daemon) *virt.Client {
	t.Helper()
	client, err := virt.New(virt.Config{Socket: d.Socket, Clock: clock.WallClock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// leased fails the test unless libvirt knows a guest's address.
func leased(t *testing.T, d *kvmtest.Daemon, name, address string) {
	t.Helper()
	ctx, client := t.Context(), newClient(t, d)
	domain, err := client.Domain(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	interfaces, err := client.DomainAddresses(ctx, domain)
	if err != nil || len(interfaces) != 1 || len(interfaces[0].Addresses) != 1 {
		t.Fatalf("interfaces %+v, %v", interfaces, err)
	}
	nic := interfaces[0]
	if got := nic.Addresses[0]; got.String() != address+"/24" || !strings.HasPrefix(nic.Name, "vnet") {
		t.Errorf("interface %+v, want %s", nic, address)
	}
	leases, err := client.Leases(ctx, "default", nic.MAC)
	if err != nil || len(leases) != 1 {
		t.Fatalf("leases %+v, %v", leases, err)
	}
	lease := leases[0]
	if lease.MAC != nic.MAC || lease.Address != nic.Addresses[0] || lease.Hostname != name || !lease.Expires.After(time.Now()) {
		t.Errorf("lease %+v", lease)
	}
	if others, err := client.Leases(ctx, "default", "52:54:00:00:00:01"); err != nil || len(others) != 0 {
		t.Errorf("leases of another: %+v, %v", others, err)
	}
}

func TestPrivateDaemonIsAsJustInstalled(t *testing.T) {
	began := time.Now()
	d := kvmtest.Private(t)
	t.Logf("up in %.1fs", time.Since(began).Seconds())
	if got := d.Run(t, "virsh", "--quiet", "list", "--all"); got != "" {
		t.Errorf("domains: %s", got)
	}
	if got := d.Run(t, "virsh", "--quiet", "pool-list", "--all"); got != "" {
		t.Errorf("pools: %s", got)
	}
	got := strings.Fields(d.Run(t, "virsh", "--quiet", "net-list", "--all"))
	if strings.Join(got, " ") != "default inactive no yes" {
		t.Errorf("networks: %q", got)
	}
	if info, err := os.Stat(d.Socket); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("socket: %v", err)
	}
	// Its network, its files, and nothing of either outside.
	d.Run(t, "virsh", "net-start", "default")
	d.Run(t, "ip", "link", "show", "virbr0")
	if got := d.Run(t, "cat", "/etc/libvirt/qemu.conf"); !strings.Contains(got, `stdio_handler = "file"`) {
		t.Errorf("configuration: %s", got)
	}
	if got := d.Run(t, "virsh", "capabilities"); strings.Contains(got, "<domain type='kvm'") || !strings.Contains(got, "<domain type='qemu'") {
		t.Errorf("capabilities: %s", got)
	}
	if !strings.Contains(d.Run(t, "cat", "/proc/net/dev"), "virbr0") {
		t.Error("the network is not the daemon's")
	}
	if data, err := os.ReadFile("/var/lib/libvirt/dnsmasq/virbr0.status"); err == nil {
		t.Errorf("written to the machine's own state: %s", data)
	}
}

func TestPrivateDaemonsHaveNothingToDoWithEachOther(t *testing.T) {
	a, b := kvmtest.Private(t), kvmtest.Private(t)
	for _, d := range []*kvmtest.Daemon{a, b} {
		d.Run(t, "virsh", "net-start", "default")
	}
	a.Run(t, "virsh", "net-destroy", "default")
	if got := b.Run(t, "virsh", "--quiet", "net-list"); !strings.Contains(got, "default") {
		t.Errorf("networks: %q", got)
	}
}

func TestDaemonIsHeldAndFrozen(t *testing.T) {
	d := kvmtest.Private(t)
	answers := func() bool {
		_, err := d.Host.Run(t.Context(), host.Look("timeout", "2", "virsh", "--quiet", "version"))
		return err == nil
	}
	thaw := d.Freeze(t)
	if answers() {
		t.Error("a frozen daemon answers")
	}
	thaw()
	d.AwaitReady(t)

	release := d.Hold(t)
	d.Kill(t)
	kvmtest.Eventually(t, "its end", func() bool { return !answers() })
	release()
	d.AwaitReady(t)
}

func TestGuestBootsSurvivesTheDaemonAndShutsDown(t *testing.T) {
	d := kvmtest.Private(t)
	d.Run(t, "virsh", "net-start", "default")
	g := start(t, d, "juju-ab-0-kvm-1", "#!/bin/sh\necho hello from user data >/dev/console\nexit 3\n")
	if got := g.await(t, "hostname"); got != g.name {
		t.Errorf("hostname %q", got)
	}
	if got := g.await(t, "memory"); !strings.HasSuffix(got, "cpus 1 disk 1073741824") {
		t.Errorf("memory %s", got)
	}
	address, _, _ := strings.Cut(g.await(t, "address"), "/")
	if got := g.await(t, "user data exits with"); got != "3" {
		t.Errorf("user data exits with %s", got)
	}
	if text, _ := os.ReadFile(g.console); !strings.Contains(string(text), "hello from user data") {
		t.Errorf("console: %s", text)
	}
	leased(t, d, g.name, address)
	// From where the daemon is, it is reached.
	d.Run(t, "busybox", "ping", "-c", "1", "-W", "20", address)

	id := d.Run(t, "virsh", "domid", g.name)
	release := d.Hold(t)
	d.Kill(t)
	d.Run(t, "busybox", "ping", "-c", "1", "-W", "20", address)
	release()
	d.AwaitReady(t)
	if got := d.Run(t, "virsh", "domid", g.name); got != id {
		t.Errorf("number %s became %s", id, got)
	}

	began := time.Now()
	client := newClient(t, d)
	domain, err := client.Domain(t.Context(), g.name)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.ShutdownDomain(t.Context(), domain); err != nil {
		t.Fatal(err)
	}
	kvmtest.Eventually(t, "a shutdown", func() bool { return g.state(t) == "shut off" })
	t.Logf("shut down in %.1fs", time.Since(began).Seconds())
	if text, _ := os.ReadFile(g.console); !strings.Contains(string(text), "guest: power button") {
		t.Errorf("console: %s", text)
	}
}

func TestGuestThatIgnoresThePowerButton(t *testing.T) {
	d := kvmtest.Private(t)
	d.Run(t, "virsh", "net-start", "default")
	g := start(t, d, "deaf", "#!/bin/sh\nkillall acpid\n")
	g.await(t, "hostname")
	g.await(t, "address")
	if got := g.await(t, "user data exits with"); got != "0" {
		t.Errorf("user data exits with %s", got)
	}
	d.Run(t, "virsh", "shutdown", "--mode", "acpi", g.name)
	// Long enough for one that listens.
	select {
	case <-time.After(3 * time.Second):
	case <-t.Context().Done():
	}
	if got := g.state(t); got != "running" {
		t.Errorf("state %s", got)
	}
	d.Run(t, "virsh", "destroy", g.name)
}

// Nothing is left of a daemon that was taken down, guests included.
func TestNothingIsLeft(t *testing.T) {
	var (
		dir string
		d   *kvmtest.Daemon
	)
	t.Run("daemon", func(t *testing.T) {
		d = kvmtest.Private(t)
		dir = d.Dir
		d.Run(t, "virsh", "net-start", "default")
		start(t, d, "left", "")
	})
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("folder: %v", err)
	}
	out, err := exec.CommandContext(context.Background(), "ps", "-eo", "args").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, dir) || strings.Contains(line, "guest=left") {
			t.Errorf("still there: %s", line)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts: %s", mounts)
	}
}

func TestNeedFindsTheTestBed(t *testing.T) {
	d := kvmtest.Need(t)
	if got := d.Run(t, "virsh", "uri"); got != "qemu:///system" {
		t.Errorf("uri %s", got)
	}
}

func TestImageIsMadeOnce(t *testing.T) {
	a, b := kvmtest.Image(t), kvmtest.Image(t)
	if a != b || len(a.SHA256) != 64 || a.Size > 40<<20 {
		t.Errorf("%+v, then %+v", a, b)
	}
}
