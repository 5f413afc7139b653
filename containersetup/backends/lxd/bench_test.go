package lxd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
)

// preseed is what Initialise comes to, for LXD's own command.
const preseed = `
storage_pools: [{name: default, driver: dir}]
networks: [{name: lxdbr0, type: bridge, config: {ipv4.address: 10.77.0.1/24, ipv4.nat: "true", ipv6.address: none}}]
profiles: [{name: default, devices: {root: {type: disk, path: /, pool: default}, eth0: {type: nic, name: eth0, network: lxdbr0}}}]
`

// BenchmarkLifeCycle does the same with the back end and with LXD's own commands, in
// turns, on one real daemon: preparing it, starting a container and taking it away. The
// metrics are milliseconds of each, and what the back end takes for each that the
// commands take.
func BenchmarkLifeCycle(b *testing.B) {
	daemon := lxdtest.Private(b)
	config := lxd.Config{
		ModelUUID: lxdtest.Model(), ControllerUUID: controllerUUID, StateDir: b.TempDir(), Host: daemon.Host, Socket: daemon.Socket,
	}
	initialiser, err := lxd.NewInitialiser(config)
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
	lxc := func(stdin string, args ...string) func() error {
		return func() error {
			_, err := host.New(host.Config{}).Run(ctx, host.Command{Args: args, Stdin: []byte(stdin), Env: []string{"LXD_DIR=" + daemon.Dir}})
			return err
		}
	}
	for n := 0; b.Loop(); n++ {
		measure("commands: prepare", lxc(preseed, "lxd", "init", "--preseed"))
		daemon.Run(b, "lxc", "profile", "device", "remove", "default", "eth0", "root")
		daemon.Run(b, "lxc", "network", "delete", "lxdbr0")
		daemon.Run(b, "lxc", "storage", "delete", "default")
		measure("back end: prepare", func() error { return initialiser.Initialise(ctx) })
		measure("back end: look", func() error { return initialiser.Initialise(ctx) })
		broker, err := lxd.NewBroker(ctx, config, nil)
		if err != nil {
			b.Fatal(err)
		}
		p := params(fmt.Sprintf("0/lxd/%d", n))
		result, err := broker.StartInstance(ctx, p) // the first has LXD unpack the image
		if err != nil {
			b.Fatal(err)
		}
		broker.StopInstances(ctx, result.InstanceID)
		for range 3 {
			measure("commands: start", lxc("", "lxc", "launch", "tiny", "plain", "-c", "user.user-data="+p.Info.UserData.Reveal()))
			measure("commands: stop", func() error {
				if err := lxc("", "lxc", "stop", "plain")(); err != nil {
					return err
				}
				return lxc("", "lxc", "delete", "plain")()
			})
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
