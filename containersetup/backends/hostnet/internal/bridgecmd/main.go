// Command bridgecmd puts devices of the machine that it runs on under bridges, and prints
// what the network looks like then. It is for tests on machines that are not the test's
// own, such as a container.
//
//	bridgecmd STATE-FOLDER DEVICE=BRIDGE...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet"
	"github.com/sutler-dev/sutler/facade"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	machine := host.New(host.Config{})
	bridger, err := hostnet.NewBridger(hostnet.BridgerConfig{
		Host: machine, Clock: clock.WallClock, StateDir: args[0],
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
		VerifyTimeout: 20 * time.Second,
	})
	if err != nil {
		return err
	}
	var devices []facade.DeviceToBridge
	for _, arg := range args[1:] {
		device, bridge, _ := strings.Cut(arg, "=")
		devices = append(devices, facade.DeviceToBridge{Device: device, Bridge: bridge})
	}
	if err := bridger.Bridge(ctx, devices, 0); err != nil {
		return err
	}
	observer, err := hostnet.NewObserver(hostnet.ObserverConfig{Host: machine})
	if err != nil {
		return err
	}
	seen, err := observer.Observe(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}
