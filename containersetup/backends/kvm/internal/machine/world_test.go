package machine_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/facade"
)

// updates has the files in testdata written anew.
func updates(t *testing.T) bool {
	t.Helper()
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the files in testdata anew")
	flag.Parse()
	os.Exit(m.Run())
}

const (
	modelUUID      = "deadbeef-0bad-400d-8000-4b1d0d06f00d"
	controllerUUID = "c0ffee00-0bad-400d-8000-4b1d0d06f00d"
)

// small is the least that can be asked for.
func small() machine.Spec {
	return machine.Spec{
		Name:     "juju-06f00d-0-kvm-1",
		Metadata: machine.Metadata{ModelUUID: modelUUID, ControllerUUID: controllerUUID, ContainerID: "0/kvm/1"},
		Disk:     "/var/lib/agent/kvm/juju-06f00d-0-kvm-1.qcow2",
	}
}

// full is all that can be asked for.
func full() machine.Spec {
	s := small()
	s.Metadata.Tags = map[string]string{"owner": "somebody & <others>", "empty": "", "blanks": "  two\nlines\t\r\n  ", "quotes": `"'`}
	s.Accelerated = true
	s.Arch, s.Memory, s.Cores, s.RootDisk = "amd64", 4096, 4, 20480
	s.Seed = "/var/lib/agent/kvm/juju-06f00d-0-kvm-1-seed.iso"
	s.Console = "/var/lib/agent/kvm/juju-06f00d-0-kvm-1-console.log"
	s.Interfaces = []machine.Interface{
		{Network: "default", NetworkInterface: facade.NetworkInterface{Name: "eth0", Type: facade.EthernetInterface}},
		{NetworkInterface: facade.NetworkInterface{
			Name: "eth1", Type: facade.EthernetInterface, Parent: "br-eth1", MAC: "52:54:00:0A:0b:0c", MTU: 1400,
			Addresses: []string{"10.1.2.3/24", "fd00::3/64"}, Gateway: "10.1.2.1", DNS: []string{"10.1.2.1", "fd00::1"},
		}},
	}
	return s
}

// needs skips a test where a program is missing, or fails it where SUTLER_REQUIRE, a list
// with commas, says that nothing may be missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		need.Missing(t, "kvm", "no "+program+": testbed/libvirt-up (or make testbed) installs it")
	}
}

// run runs a program on a file with that content, which is in the place of an argument
// "FILE", and returns what it prints.
func run(t *testing.T, content []byte, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for n := range args {
		args[n] = strings.ReplaceAll(args[n], "FILE", path)
	}
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}
