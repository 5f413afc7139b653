package hostnet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/facade"
)

func ExampleBridgeName() {
	for _, device := range []string{"eth0", "bond0.100", "enx001122334455"} {
		fmt.Println(device, hostnet.BridgeName(device))
	}
	// Output:
	// eth0 br-eth0
	// bond0.100 br-bond0.100
	// enx001122334455 br-d3caa2-34455
}

func ExampleNewObserver() {
	observer, err := hostnet.NewObserver(hostnet.ObserverConfig{Host: host.New(host.Config{})})
	if err != nil {
		fmt.Println(err)
		return
	}
	seen, err := observer.Observe(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range seen {
		if i.Type == facade.LoopbackInterface {
			fmt.Println(i.Name, i.Index)
		}
	}
	// Output: lo 1
}

// exampleBridger changes nothing in these examples: what they ask for is refused.
func exampleBridger() (bridger *hostnet.Bridger, done func()) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	bridger, err = hostnet.NewBridger(hostnet.BridgerConfig{
		Host:     host.New(host.Config{}),
		Clock:    clock.WallClock,
		StateDir: filepath.Join(dir, "network"), // in a host, /var/lib/AGENT/network
		// Watchdog: []string{"/usr/bin/agent", "watch-network"},
	})
	if err != nil {
		panic(err)
	}
	return bridger, func() { _ = os.RemoveAll(dir) }
}

func ExampleBridger_Bridge() {
	bridger, done := exampleBridger()
	defer done()
	for _, d := range []facade.DeviceToBridge{
		{Device: "lo", Bridge: hostnet.BridgeName("lo")},
		{Device: "lo", Bridge: "lxdbr0"},
		{Device: "no-such-dev", Bridge: "br-no-such-dev"},
		{Device: "eth0", Bridge: "br-much-too-long"},
	} {
		err := bridger.Bridge(context.Background(), []facade.DeviceToBridge{d}, 0)
		fmt.Println(err)
	}
	// Output:
	// device "lo": bridging the loopback interface not valid
	// device "lo": bridging the loopback interface not valid
	// device "no-such-dev": interface of that name not found
	// device "eth0": Bridge: interface name "br-much-too-long" (want 1 to 15 bytes) not valid
}

func ExampleBridger_Recover() {
	bridger, done := exampleBridger()
	defer done()
	// Once, when the host's program starts. Nothing to put back is success.
	fmt.Println(bridger.Recover(context.Background()))
	// Output: <nil>
}

// The subcommand that BridgerConfig.Watchdog names.
func ExampleRunWatchdog() {
	err := hostnet.RunWatchdog(context.Background(), hostnet.WatchdogConfig{
		StateDir: "/nonexistent/agent/network",
		Host:     host.New(host.Config{}),
		Clock:    clock.WallClock,
	})
	fmt.Println("nothing is being changed:", err)
	// Output: nothing is being changed: <nil>
}

func ExampleBridgerConfig_Validate() {
	err := hostnet.BridgerConfig{Host: host.New(host.Config{}), Clock: clock.WallClock}.Validate()
	fmt.Println(err, errors.Is(err, errors.NotValid))
	// Output: StateDir "" (want an absolute path of its own) not valid true
}
