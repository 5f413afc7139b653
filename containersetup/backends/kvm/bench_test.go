package kvm_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/kvmtest"
)

// BenchmarkLifeCycle does the same with the back end and with virsh and qemu-img, in turns,
// on one real daemon: preparing it, starting a machine and taking it away. The metrics are
// milliseconds of each, and what the back end takes for each that the commands take.
// Machines have nothing to boot, and hear no button: both are switched off at once.
func BenchmarkLifeCycle(b *testing.B) {
	daemon := kvmtest.Private(b)
	image := emptyImage(b)
	config := kvm.Config{
		ModelUUID: kvmtest.Model(), ControllerUUID: controllerUUID, StateDir: b.TempDir(), Host: daemon.Host, Socket: daemon.Socket,
		Images: map[string]kvm.Image{"ubuntu/22.04": image}, AllowEmulation: true, StopTimeout: time.Nanosecond,
	}
	initialiser, err := kvm.NewInitialiser(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	took := map[string]time.Duration{}
	measure := func(what string, do func() error) {
		b.Helper()
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
		took[what] += time.Since(begin)
	}
	// Commands run beside the daemon, without what it costs to get there.
	commands := func(lines ...string) func() error {
		return func() error {
			for _, line := range lines {
				cmd := host.Command{Args: strings.Fields(line), Env: []string{"LIBVIRT_DEFAULT_URI=qemu+unix:///system?socket=" + daemon.Socket}}
				if _, err := host.New(host.Config{}).Run(ctx, cmd); err != nil {
					return err
				}
			}
			return nil
		}
	}
	dir := b.TempDir()
	disk, definition := filepath.Join(dir, "plain.qcow2"), filepath.Join(dir, "plain.xml")
	for n := 0; b.Loop(); n++ {
		measure("commands: prepare", commands("virsh pool-define-as plain dir --target "+filepath.Join(dir, "pool"), "virsh pool-build plain",
			"virsh pool-start plain", "virsh pool-autostart plain", "virsh net-start default", "virsh net-autostart default"))
		for _, line := range []string{"net-destroy default", "net-autostart default --disable", "pool-destroy plain", "pool-delete plain", "pool-undefine plain"} {
			daemon.Run(b, append([]string{"virsh"}, strings.Fields(line)...)...)
		}
		measure("back end: prepare", func() error { return initialiser.Initialise(ctx) })
		measure("back end: look", func() error { return initialiser.Initialise(ctx) })
		broker, err := kvm.NewBroker(ctx, config, nil)
		if err != nil {
			b.Fatal(err)
		}
		p := params(fmt.Sprintf("0/kvm/%d", n))
		result, err := broker.StartInstance(ctx, p) // the first fetches the image
		if err != nil {
			b.Fatal(err)
		}
		// The same machine, under another name.
		text := daemon.Run(b, "virsh", "dumpxml", "--inactive", string(result.InstanceID))
		uuid := daemon.Run(b, "virsh", "domuuid", string(result.InstanceID))
		own := filepath.Join(config.StateDir, "images", string(result.InstanceID))
		seed := own + "-seed.iso"
		data, err := os.ReadFile(seed)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "plain-seed.iso"), data, 0o600); err != nil {
			b.Fatal(err)
		}
		text = strings.NewReplacer(uuid, kvmtest.Model(), own, filepath.Join(dir, "plain"), "<name>"+string(result.InstanceID)+"<", "<name>plain<").Replace(text)
		if err := os.WriteFile(definition, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		broker.StopInstances(ctx, result.InstanceID)
		base := strings.TrimPrefix(image.URL, "file://")
		for range 3 {
			measure("commands: start", commands("qemu-img create -q -f qcow2 -F qcow2 -b "+base+" "+disk+" 16M",
				"virsh define "+definition, "virsh autostart plain", "virsh start plain"))
			measure("commands: stop", commands("virsh destroy plain", "virsh undefine plain", "rm "+disk))
			measure("back end: start", func() error {
				_, err := broker.StartInstance(ctx, p)
				return err
			})
			measure("back end: stop", func() error { return broker.StopInstances(ctx, result.InstanceID)[0] })
		}
		if err := initialiser.Undo(ctx); err != nil {
			b.Fatal(err)
		}
	}
	each := func(what string, times int) float64 {
		return float64(took[what].Milliseconds()) / float64(b.N*times)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each("back end: look", 1), "look-ms")
	for what, times := range map[string]int{"prepare": 1, "start": 3, "stop": 3} {
		ours, theirs := each("back end: "+what, times), each("commands: "+what, times)
		b.ReportMetric(ours, what+"-ms")
		b.ReportMetric(theirs, what+"-commands-ms")
		b.ReportMetric(ours/theirs, what+"-ratio")
	}
}
