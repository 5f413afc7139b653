package kvm_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
)

func wallClock() clock.Clock { return clock.WallClock }

// testDriver is libvirt's own driver for tests, taken for one that runs machines.
type testDriver struct{ *virt.Client }

func (d testDriver) Close() {} // with it, all that it has would be gone

func (d testDriver) Capabilities(context.Context) (virt.Capabilities, error) {
	return virt.Capabilities{Arch: "x86_64", Guests: []virt.Guest{{Arch: "x86_64", OSType: "hvm", Types: []string{"kvm"}}}}, nil
}

// BuildPool makes the folder, which the driver does not: files are not its business.
func (d testDriver) BuildPool(ctx context.Context, name string) error {
	pool, err := d.Pool(ctx, name)
	if err != nil {
		return err
	}
	return os.MkdirAll(pool.Path, 0o711)
}

func (d testDriver) DefineDomain(ctx context.Context, definition string) (virt.Domain, error) {
	definition = strings.NewReplacer(`type="kvm"`, `type="test"`, `arch="x86_64"`, `arch="i686"`, ` machine="q35"`, "").Replace(definition)
	return d.Client.DefineDomain(ctx, definition)
}

// TestTestDriver has libvirt's own driver for tests go through what it can: pools,
// networks, and domains from their definition to their end. Its domain "test", which is
// there before, is somebody else's.
func TestTestDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kvmtest.Need(t))
	client := w.client("test:///default")
	t.Cleanup(client.Close)
	w.config = kvm.WithDaemon(w.config, func(kvm.Config, func(kvm.Config) (kvm.Daemon, error)) (kvm.Daemon, error) {
		return hooked{testDriver{client}, w.hook}, nil
	})
	w.config.AllowEmulation = true // there is no /dev/kvm, for one
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.steps.text())
		}
	})
	broker := w.prepared()
	first := w.started(broker, "0/kvm/0")
	if again := w.started(broker, "0/kvm/0"); cmp.Diff(first, again) != "" {
		t.Error(cmp.Diff(first, again))
	}
	second := w.started(broker, "0/kvm/1")
	list, err := broker.AllInstances(t.Context())
	if err != nil || len(list) != 2 || !list[0].Running || list[0].ContainerID != "0/kvm/0" {
		t.Errorf("listed are %+v, %v", list, err)
	}
	if err := w.halfMake("0/kvm/2"); err != nil {
		t.Fatal(err)
	}
	w.started(broker, "0/kvm/2")
	w.removed(broker, first.InstanceID)
	w.removed(broker, second.InstanceID)
	if errs := broker.StopInstances(t.Context(), "test"); errs[0] == nil {
		t.Error("somebody else's was stopped")
	}
	list, err = broker.AllInstances(t.Context())
	if err != nil || len(list) != 1 || list[0].ContainerID != "0/kvm/2" {
		t.Errorf("listed are %+v, %v", list, err)
	}
}
