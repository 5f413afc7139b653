package virt_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
)

const metadata = `<i:instance xmlns:i="urn:example"><i:id>0/kvm/1</i:id></i:instance>`

// domainStory is a domain's whole life, in any driver.
func domainStory(t *testing.T, c *virt.Client, driver string) {
	t.Helper()
	ctx := t.Context()
	name := "m-" + kvmtest.Model()[:8]
	_, err := c.Domain(ctx, name)
	wantKind(t, err, "not found")

	domain, err := c.DefineDomain(ctx, machine(driver, name, metadata))
	ok(t, err)
	if domain.Name != name || len(domain.UUID) != 36 || domain.Active() || domain.State != virt.StateShutoff || !domain.Persistent || domain.Autostart {
		t.Errorf("defined: %+v", domain)
	}
	if !strings.Contains(domain.Metadata, `<i:id>0/kvm/1</i:id>`) {
		t.Errorf("metadata: %q", domain.Metadata)
	}
	// Its name is taken, by whoever does not know its UUID.
	_, err = c.DefineDomain(ctx, machine(driver, name, ""))
	wantKind(t, err, "exists")
	text, err := c.DomainXML(ctx, domain)
	ok(t, err)
	again, err := c.DefineDomain(ctx, text)
	ok(t, err)
	if again.UUID != domain.UUID {
		t.Errorf("defined anew: %+v", again)
	}

	ok(t, c.SetDomainAutostart(ctx, domain, true))
	for range 2 {
		ok(t, c.StartDomain(ctx, domain))
	}
	running, err := c.Domain(ctx, name)
	ok(t, err)
	if !running.Active() || running.State != virt.StateRunning || !running.Autostart || running.Metadata != domain.Metadata {
		t.Errorf("started: %+v", running)
	}
	all, err := c.Domains(ctx)
	ok(t, err)
	if !slices.Contains(all, running) {
		t.Errorf("%+v is not in %+v", running, all)
	}
	for range 2 {
		ok(t, c.DestroyDomain(ctx, domain))
	}
	ok(t, c.ShutdownDomain(ctx, domain))
	ok(t, c.UndefineDomain(ctx, domain))
	wantKind(t, c.UndefineDomain(ctx, domain), "not found")
	for about, err := range map[string]error{
		"start":     c.StartDomain(ctx, domain),
		"shutdown":  c.ShutdownDomain(ctx, domain),
		"destroy":   c.DestroyDomain(ctx, domain),
		"autostart": c.SetDomainAutostart(ctx, domain, true),
	} {
		if kind(err) != "not found" {
			t.Errorf("%s of a domain that is gone: %v", about, err)
		}
	}
	_, err = c.DomainXML(ctx, domain)
	wantKind(t, err, "not found")
	wantKind(t, c.StartDomain(ctx, virt.Domain{Name: name, UUID: "?"}), "not valid")
	_, err = c.DefineDomain(ctx, "<domain><name>x</name>")
	wantKind(t, err, "error")
}

func TestDriverForTests(t *testing.T) {
	daemon := kvmtest.Private(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket, URI: "test:///default"})
	ctx := t.Context()
	// What the driver keeps goes with its last connection.
	hold := newClient(t, virt.Config{Socket: daemon.Socket, URI: "test:///default"})
	_, err := hold.Version(ctx)
	ok(t, err)

	domainStory(t, c, "test")

	node, err := c.Node(ctx)
	ok(t, err)
	if node.CPUs == 0 || node.Memory < 1<<20 {
		t.Errorf("node %+v", node)
	}
	pools, err := c.Pools(ctx)
	ok(t, err)
	if len(pools) != 1 || pools[0].Name != "default-pool" || !pools[0].Active || pools[0].Path != "/default-pool" {
		t.Errorf("pools %+v", pools)
	}
	networks, err := c.Networks(ctx)
	ok(t, err)
	if len(networks) != 1 || networks[0].Name != "default" || networks[0].Bridge != "virbr0" {
		t.Errorf("networks %+v", networks)
	}
}

func TestUnknownDriverIsRefused(t *testing.T) {
	daemon := kvmtest.Private(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket, URI: "nonsense:///system"})
	within(t, 4*time.Second, "refusals", func() {
		for range 3 {
			_, err := c.Version(t.Context())
			if err == nil || !strings.Contains(err.Error(), "libvirt: ") {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestHost(t *testing.T) {
	daemon := kvmtest.Need(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket})
	ctx := t.Context()
	ok(t, c.WaitReady(ctx))
	version, err := c.Version(ctx)
	ok(t, err)
	if version < 5000000 {
		t.Errorf("version %v", version)
	}
	capabilities, err := c.Capabilities(ctx)
	ok(t, err)
	guest, found := capabilities.Guest(capabilities.Arch)
	if !found || !slices.Contains(guest.Types, "qemu") {
		t.Fatalf("capabilities %+v", capabilities)
	}
	_, missing := os.Stat("/dev/kvm")
	if guest.Accelerated() && missing != nil {
		t.Errorf("accelerated without /dev/kvm: %+v", guest)
	}
	if _, err := os.Stat(guest.Emulator); err != nil {
		t.Errorf("emulator: %v", err)
	}
	if _, found := capabilities.Guest("pdp11"); found {
		t.Error("a guest of an architecture that nobody emulates")
	}
	node, err := c.Node(ctx)
	ok(t, err)
	if node.Arch != capabilities.Arch || node.CPUs < 1 || node.Memory < 1<<28 {
		t.Errorf("node %+v", node)
	}
}

func TestDomain(t *testing.T) {
	daemon := kvmtest.Need(t)
	domainStory(t, newClient(t, virt.Config{Socket: daemon.Socket}), "qemu")
}

func TestPool(t *testing.T) {
	daemon := kvmtest.Need(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket})
	ctx := t.Context()
	name := "p-" + kvmtest.Model()[:8]
	dir := filepath.Join(t.TempDir(), "pool")
	_, err := c.Pool(ctx, name)
	wantKind(t, err, "not found")
	for about, err := range map[string]error{
		"build": c.BuildPool(ctx, name), "start": c.StartPool(ctx, name), "stop": c.StopPool(ctx, name),
		"refresh": c.RefreshPool(ctx, name), "undefine": c.UndefinePool(ctx, name),
		"autostart": c.SetPoolAutostart(ctx, name, true),
	} {
		if kind(err) != "not found" {
			t.Errorf("%s of a pool that is not there: %v", about, err)
		}
	}
	_, err = c.Volumes(ctx, name)
	wantKind(t, err, "not found")

	definition, err := virt.DirPool(name, dir)
	ok(t, err)
	ok(t, c.DefinePool(ctx, definition))
	wantKind(t, c.DefinePool(ctx, definition), "exists")
	other, err := virt.DirPool(name+"-2", dir)
	ok(t, err)
	wantKind(t, c.DefinePool(ctx, other), "error") // the directory is taken
	if err := c.StartPool(ctx, name); err == nil {
		t.Error("started without its directory")
	}
	pool, err := c.Pool(ctx, name)
	ok(t, err)
	if want := (virt.Pool{Name: name, UUID: pool.UUID, Type: "dir", Path: dir, Persistent: true}); pool != want {
		t.Errorf("defined: %+v", pool)
	}
	for range 2 {
		ok(t, c.BuildPool(ctx, name))
	}
	for range 2 {
		ok(t, c.StartPool(ctx, name))
	}
	ok(t, c.SetPoolAutostart(ctx, name, true))
	pool, err = c.Pool(ctx, name)
	ok(t, err)
	if !pool.Active || !pool.Autostart || pool.Capacity == 0 || pool.Available == 0 || pool.Available > pool.Capacity {
		t.Errorf("started: %+v", pool)
	}
	pools, err := c.Pools(ctx)
	ok(t, err)
	if !slices.ContainsFunc(pools, func(p virt.Pool) bool { return p.UUID == pool.UUID }) {
		t.Errorf("%s is not in %+v", name, pools)
	}

	base := filepath.Join(dir, "base.qcow2")
	for _, args := range [][]string{
		{"create", "-q", "-f", "qcow2", base, "8M"},
		{"create", "-q", "-f", "qcow2", "-b", base, "-F", "qcow2", filepath.Join(dir, "over.qcow2"), "16M"},
	} {
		if out, err := exec.Command("qemu-img", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	_, err = c.Volume(ctx, name, "over.qcow2")
	wantKind(t, err, "not found") // libvirt has not looked yet
	ok(t, c.RefreshPool(ctx, name))
	volume, err := c.Volume(ctx, name, "over.qcow2")
	ok(t, err)
	want := virt.Volume{
		Pool: name, Name: "over.qcow2", Path: filepath.Join(dir, "over.qcow2"), Format: "qcow2", Backing: base,
		Capacity: 16 << 20, Allocation: volume.Allocation,
	}
	if volume != want || volume.Allocation == 0 {
		t.Errorf("volume %+v", volume)
	}
	volumes, err := c.Volumes(ctx, name)
	ok(t, err)
	if len(volumes) != 2 || !slices.Contains(volumes, volume) {
		t.Errorf("volumes %+v", volumes)
	}
	ok(t, c.DeleteVolume(ctx, name, "over.qcow2"))
	wantKind(t, c.DeleteVolume(ctx, name, "over.qcow2"), "not found")
	if _, err := os.Stat(volume.Path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}

	if err := c.UndefinePool(ctx, name); err == nil {
		t.Error("undefined while active")
	}
	for range 2 {
		ok(t, c.StopPool(ctx, name))
	}
	_, err = c.Volumes(ctx, name)
	wantKind(t, err, "error") // not active
	ok(t, c.UndefinePool(ctx, name))
	if _, err := os.Stat(base); err != nil {
		t.Errorf("volumes went with the pool: %v", err)
	}
}

func TestNetwork(t *testing.T) {
	daemon := kvmtest.Need(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket})
	ctx := t.Context()
	model := kvmtest.Model()
	name, bridge := "n-"+model[:8], "vb"+model[:8]
	definition := fmt.Sprintf(`<network><name>%s</name><bridge name=%q/><ip address="10.213.%d.1" netmask="255.255.255.0">
<dhcp><range start="10.213.%[3]d.2" end="10.213.%[3]d.9"/></dhcp></ip></network>`, name, bridge, time.Now().UnixNano()%250)
	_, err := c.Network(ctx, name)
	wantKind(t, err, "not found")
	for about, err := range map[string]error{
		"start": c.StartNetwork(ctx, name), "stop": c.StopNetwork(ctx, name), "undefine": c.UndefineNetwork(ctx, name),
		"autostart": c.SetNetworkAutostart(ctx, name, true),
	} {
		if kind(err) != "not found" {
			t.Errorf("%s of a network that is not there: %v", about, err)
		}
	}
	_, err = c.Leases(ctx, name, "")
	wantKind(t, err, "not found")
	_, err = c.NetworkXML(ctx, name)
	wantKind(t, err, "not found")

	ok(t, c.DefineNetwork(ctx, definition))
	wantKind(t, c.DefineNetwork(ctx, definition), "exists")
	ok(t, c.SetNetworkAutostart(ctx, name, true))
	for range 2 {
		ok(t, c.StartNetwork(ctx, name))
	}
	network, err := c.Network(ctx, name)
	ok(t, err)
	if want := (virt.Network{Name: name, UUID: network.UUID, Bridge: bridge, Active: true, Autostart: true, Persistent: true}); network != want {
		t.Errorf("network %+v", network)
	}
	networks, err := c.Networks(ctx)
	ok(t, err)
	if !slices.Contains(networks, network) {
		t.Errorf("%+v is not in %+v", network, networks)
	}
	text, err := c.NetworkXML(ctx, name)
	ok(t, err)
	if !strings.Contains(text, bridge) {
		t.Errorf("definition %s", text)
	}
	for _, mac := range []string{"", "52:54:00:00:00:01"} {
		leases, err := c.Leases(ctx, name, mac)
		ok(t, err)
		if len(leases) != 0 {
			t.Errorf("leases of nobody: %+v", leases)
		}
	}
	for range 2 {
		ok(t, c.StopNetwork(ctx, name))
	}
	ok(t, c.UndefineNetwork(ctx, name))

	// One that has no bridge of libvirt's.
	direct := fmt.Sprintf(`<network><name>%s</name><forward mode="bridge"><interface dev="eth0"/></forward></network>`, name)
	ok(t, c.DefineNetwork(ctx, direct))
	network, err = c.Network(ctx, name)
	ok(t, err)
	if network.Bridge != "" || network.Active {
		t.Errorf("network %+v", network)
	}
	ok(t, c.UndefineNetwork(ctx, name))
}

// crowd has many goroutines ask until stopped, and returns the kinds of what they got.
func crowd(t *testing.T, c *virt.Client) (stop func() map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		work  sync.WaitGroup
		mu    sync.Mutex
		kinds = map[string]int{}
	)
	for i := range 24 {
		work.Go(func() {
			for ctx.Err() == nil {
				var err error
				switch i % 3 {
				case 0:
					_, err = c.Domains(ctx)
				case 1:
					_, err = c.Networks(ctx)
				case 2:
					_, err = c.Version(ctx)
				}
				mu.Lock()
				kinds[kind(err)]++
				mu.Unlock()
				if err != nil && ctx.Err() == nil {
					select {
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	return func() map[string]int {
		cancel()
		work.Wait()
		return kinds
	}
}

// juju/juju#9611, for libvirt.
func TestDaemonIsKilledAgainAndAgain(t *testing.T) {
	daemon := kvmtest.Private(t)
	c := newClient(t, virt.Config{Socket: daemon.Socket})
	ctx := t.Context()
	domain, err := c.DefineDomain(ctx, machine("qemu", "m", metadata))
	ok(t, err)
	ok(t, c.StartDomain(ctx, domain))
	before, err := c.Domain(ctx, "m")
	ok(t, err)

	stop := crowd(t, c)
	for range 4 {
		daemon.Kill(t)
		ok(t, c.WaitReady(ctx))
	}
	kinds := stop()
	t.Log(kinds)
	for kind := range kinds {
		if kind != "ok" && kind != "not yet available" && kind != "cancelled" {
			t.Errorf("%d answers of the kind %q", kinds[kind], kind)
		}
	}
	// The domain has run on, and is taken over.
	ok(t, c.WaitReady(ctx))
	after, err := c.Domain(ctx, "m")
	ok(t, err)
	if after.ID != before.ID || after.State != virt.StateRunning || after.Metadata != before.Metadata {
		t.Errorf("%+v became %+v", before, after)
	}

	release := daemon.Hold(t)
	daemon.Kill(t)
	kvmtest.Eventually(t, "the daemon's end", func() bool {
		_, err := c.Version(ctx)
		return kind(err) == "not yet available" && !errors.Is(err, virt.ErrNoReply)
	})
	wantKind(t, c.DestroyDomain(ctx, domain), "not yet available")
	release()
	ok(t, c.WaitReady(ctx))
	ok(t, c.DestroyDomain(ctx, domain))
}

func TestFrozenDaemonIsLeftInTime(t *testing.T) {
	daemon := kvmtest.Private(t)
	ctx := t.Context()
	hasty := newClient(t, virt.Config{Socket: daemon.Socket, CallTimeout: 200 * time.Millisecond, OperationTimeout: 300 * time.Millisecond})
	patient := newClient(t, virt.Config{Socket: daemon.Socket})
	ok(t, patient.WaitReady(ctx))
	domain, err := patient.DefineDomain(ctx, machine("qemu", "m", ""))
	ok(t, err)
	ok(t, hasty.WaitReady(ctx))

	thaw := daemon.Freeze(t)
	defer thaw()
	waited := make(chan error, 1)
	go func() {
		_, err := patient.Domain(ctx, "m")
		waited <- err
	}()
	for range 3 { // on an old connection, then on new ones
		_, err = hasty.Domains(ctx)
		wantKind(t, err, "timeout")
	}
	wantKind(t, hasty.StartDomain(ctx, domain), "timeout")
	// One caller's haste does not disturb another's wait, on the same connection.
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = patient.Networks(short)
	wantKind(t, err, "cancelled")
	thaw()
	if err := <-waited; err != nil {
		t.Errorf("a patient call: %v", err)
	}
	kvmtest.Eventually(t, "an answer to the hasty one", func() bool {
		_, err := hasty.Domains(ctx)
		return err == nil
	})
}
