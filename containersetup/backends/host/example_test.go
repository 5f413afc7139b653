//go:build unix

package host_test

import (
	"context"
	"fmt"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
)

func ExampleNew() {
	machine := host.New(host.Config{})
	ctx := context.Background()

	out, err := machine.Run(ctx, host.Look("echo", "never a shell: $HOME; *"))
	fmt.Printf("%s%v\n", out.Stdout, err)

	_, err = machine.Run(ctx, host.Look("cat", "/no/such/file"))
	code, ran := host.ExitCode(err)
	fmt.Println(code, ran, err)

	_, err = machine.Run(ctx, host.Do("no-such-program"))
	fmt.Println(errors.Is(err, errors.NotFound), err)
	// Output:
	// never a shell: $HOME; *
	// <nil>
	// 1 true cat: cat: /no/such/file: No such file or directory (exit code 1)
	// true program "no-such-program" not found
}

func ExamplePackages() {
	var machine hosttest.Host // or host.New(host.Config{})
	machine.SetFile("/etc/os-release", "ID=ubuntu\n")
	machine.On(hosttest.Print(""), "snap", "list")
	machine.On(hosttest.Print(""), "snap", "install")

	ctx := context.Background()
	packages, err := host.Packages(ctx, &machine, clock.WallClock)
	if err != nil {
		fmt.Println(err)
		return
	}
	added, err := packages.Install(ctx, host.Package{Name: "lxd", Channel: "5.21/stable"})
	fmt.Println(packages.Name(), added, err)
	fmt.Println(machine.Changes())
	// Output:
	// snap [lxd] <nil>
	// [run snap install --channel=5.21/stable lxd]
}

// What cannot be had on this system is said once, for good.
func ExamplePackages_notSupported() {
	var machine hosttest.Host
	machine.SetFile("/etc/os-release", "ID=fedora\nID_LIKE=\"rhel centos\"\n")
	_, err := host.Packages(context.Background(), &machine, clock.WallClock)
	fmt.Println(errors.Is(err, errors.NotSupported), err)
	// Output: true installing packages on "fedora" (want Debian or Ubuntu) not supported
}
