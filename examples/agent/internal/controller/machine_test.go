package controller

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

const machineYAML = "id: 0\ncontainers: [lxd, box]\nsettings: {box: {stop-timeout: 1s}}\n"

// machineFiles is a model with a machine and these containers.
func machineFiles(more ...string) map[string]string {
	files := map[string]string{"machine.yaml": machineYAML, "containers/.keep": ""}
	for _, name := range more {
		files["containers/"+name+".yaml"] = ""
	}
	return files
}

// restart is another start of the agent.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

func (w *world) containerOf(id string) facade.ContainerResult {
	w.t.Helper()
	results, err := w.Containers(w.t.Context(), []string{id})
	if err != nil || len(results) != 1 || results[0].ID != id {
		w.t.Fatalf("got %v, %v", results, err)
	}
	return results[0]
}

func (w *world) setStatus(id string, state facade.ContainerState, message string) {
	w.t.Helper()
	results, err := w.SetContainerStatus(w.t.Context(), []facade.ContainerStatus{{ID: id, State: state, Message: message}})
	if err != nil || results[0] != nil {
		w.t.Fatalf("got %v, %v", results, err)
	}
}

func (w *world) nonce(id string) string {
	w.t.Helper()
	infos, err := w.ProvisioningInfo(w.t.Context(), []string{id})
	if err != nil || len(infos) != 1 || infos[0].Err != nil || infos[0].Info.Nonce == "" {
		w.t.Fatalf("got %v, %v", infos, err)
	}
	return infos[0].Info.Nonce
}

// record records an instance of a container.
func (w *world) record(id, instance string) {
	w.t.Helper()
	info := facade.InstanceInfo{ID: id, InstanceID: instance, Nonce: w.nonce(id), Hardware: facade.Hardware{Arch: "amd64"}}
	results, err := w.SetInstanceInfo(w.t.Context(), []facade.InstanceInfo{info})
	if err != nil || results[0] != nil {
		w.t.Fatalf("got %v, %v", results, err)
	}
}

func (w *world) address(id string) string {
	w.t.Helper()
	interfaces, err := w.PrepareContainerInterfaceInfo(w.t.Context(), id)
	if err != nil || len(interfaces) != 1 || len(interfaces[0].Addresses) != 1 {
		w.t.Fatalf("got %v, %v", interfaces, err)
	}
	if err := interfaces[0].Validate(); err != nil {
		w.t.Error(err)
	}
	return interfaces[0].Addresses[0]
}

func TestQuestionsAboutTheMachineAreAnsweredFromTheModel(t *testing.T) {
	files := machineFiles("0-box-0")
	files["containers/0-lxd-0.yaml"] = "life: dying\nbase: centos@9\nconstraints: {memory: 64}\nuser-data: secret-canary\n"
	files["containers/0-kvm-0.yaml"] = ""
	w := newWorld(t, files)
	ctx := t.Context()
	if types, err := w.SupportedContainers(ctx, "0"); err != nil || !slices.Equal(types, []facade.ContainerType{"lxd", "box"}) {
		t.Errorf("got %v, %v", types, err)
	}
	config, err := w.ContainerManagerConfig(ctx, "box")
	if want := (facade.ContainerManagerConfig{"stop-timeout": "1s", "model-uuid": "9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e"}); err != nil || !reflect.DeepEqual(config, want) {
		t.Errorf("got %v, %v", config, err)
	}
	if mode, err := w.HarvestMode(ctx); err != nil || mode != facade.HarvestDestroyed {
		t.Errorf("got %v, %v", mode, err)
	}
	for _, id := range []string{"0/lxd/0", "0/kvm/0"} {
		if interfaces, err := w.PrepareContainerInterfaceInfo(ctx, id); err != nil || len(interfaces) > 0 {
			t.Errorf("%s: got %v, %v: want its daemon to give it an address", id, interfaces, err)
		}
	}
	got := w.containerOf("0/lxd/0")
	if want := (facade.ContainerResult{ID: "0/lxd/0", Life: facade.Dying, Status: facade.ContainerPending}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	infos, err := w.ProvisioningInfo(ctx, []string{"0/lxd/0", "0/box/0"})
	if err != nil || len(infos) != 2 {
		t.Fatalf("got %v, %v", infos, err)
	}
	for _, info := range infos {
		if err := info.Info.Validate(); err != nil || info.Info.Nonce == "" {
			t.Errorf("got %+v, %v", info, err)
		}
	}
	if info := infos[0].Info; info.Base.Name != "centos" || info.Constraints.Memory != 64 || info.UserData.Reveal() != "secret-canary" {
		t.Errorf("got %+v", info)
	}
	if changes, err := w.HostChangesForContainer(ctx, "0/box/0"); err != nil || len(changes.Devices) > 0 {
		t.Errorf("got %v, %v", changes, err)
	}
	if strings.Contains(fmt.Sprint(w.Report())+w.log.String(), "canary") {
		t.Error("user data is told")
	}
}

func TestWhatIsNotOfTheMachineIsNotFoundAndWhatIsMalformedIsNotValid(t *testing.T) {
	files := machineFiles("0-box-0")
	files["containers/0-box-1.yaml"] = "life: alife\n"
	w := newWorld(t, files)
	bare := newWorld(t, nil)
	ctx := t.Context()
	first := func(results []error, err error) error {
		if err != nil {
			return err
		}
		return results[0]
	}
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"types of another machine": {second(w.SupportedContainers(ctx, "1")), errors.NotFound},
		"types of no machine":      {second(bare.SupportedContainers(ctx, "0")), errors.NotFound},
		"settings of no machine":   {second(bare.ContainerManagerConfig(ctx, "box")), errors.NotFound},
		"settings of no type":      {second(w.ContainerManagerConfig(ctx, "No")), errors.NotValid},
		"mode of no machine":       {second(bare.HarvestMode(ctx)), errors.NotFound},
		"watching another machine": {second(w.WatchAllContainers(ctx, "1")), errors.NotFound},
		"watching a type there":    {second(w.WatchContainers(ctx, "1", "box")), errors.NotFound},
		"watching no type":         {second(w.WatchContainers(ctx, "0", "")), errors.NotValid},
		"network of another":       {w.SetHostMachineNetworkConfig(ctx, "1", nil), errors.NotFound},
		"impossible network":       {w.SetHostMachineNetworkConfig(ctx, "0", []facade.NetworkInterface{{}}), errors.NotValid},
		"container of none":        {w.containerOf("0/box/9").Err, errors.NotFound},
		"container, malformed":     {w.containerOf("0/box/1").Err, errors.NotValid},
		"changes for none":         {second(w.HostChangesForContainer(ctx, "0/box/9")), errors.NotFound},
		"addresses of none":        {second(w.PrepareContainerInterfaceInfo(ctx, "0/box/9")), errors.NotFound},
		"addresses, malformed":     {second(w.PrepareContainerInterfaceInfo(ctx, "0/box/1")), errors.NotValid},
		"status of none":           {first(w.SetContainerStatus(ctx, []facade.ContainerStatus{{ID: "0/box/9", State: "error"}})), errors.NotFound},
		"impossible status":        {first(w.SetContainerStatus(ctx, []facade.ContainerStatus{{ID: "0/box/0", State: "odd"}})), errors.NotValid},
		"instance of none":         {first(w.SetInstanceInfo(ctx, []facade.InstanceInfo{{ID: "0/box/9", InstanceID: "i"}})), errors.NotFound},
		"empty instance":           {first(w.SetInstanceInfo(ctx, []facade.InstanceInfo{{ID: "0/box/0"}})), errors.NotValid},
		"another nonce":            {first(w.SetInstanceInfo(ctx, []facade.InstanceInfo{{ID: "0/box/0", InstanceID: "i"}})), errors.NotValid},
		"removal of none":          {first(w.MarkForRemoval(ctx, []string{"0/box/9"})), errors.NotFound},
		"removal of a path":        {first(w.MarkForRemoval(ctx, []string{"../../etc/passwd"})), errors.NotFound},
		"removal of a living one":  {first(w.MarkForRemoval(ctx, []string{"0/box/0"})), errors.NotValid},
		"removal, malformed":       {first(w.MarkForRemoval(ctx, []string{"0/box/1"})), errors.NotValid},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: got %v, want %v", name, test.err, test.want)
		}
	}
	if err := w.ReleaseContainerAddresses(ctx, "0/box/9"); err != nil {
		t.Errorf("nothing to give back: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestBulkAnswersAboutContainersAreInOrder(t *testing.T) {
	files := machineFiles("0-box-0", "0-box-2")
	files["containers/0-box-1.yaml"] = "life: alife\n"
	w := newWorld(t, files)
	ids := []string{"0/box/9", "0/box/2", "0/box/1", "0/box/0", "0/box/2"}
	want := []error{errors.NotFound, nil, errors.NotValid, nil, nil}
	results, err := w.Containers(t.Context(), ids)
	if err != nil || len(results) != len(ids) {
		t.Fatalf("got %v, %v", results, err)
	}
	infos, err := w.ProvisioningInfo(t.Context(), ids)
	if err != nil || len(infos) != len(ids) {
		t.Fatalf("got %v, %v", infos, err)
	}
	var statuses []facade.ContainerStatus
	for i, id := range ids {
		if r := results[i]; r.ID != id || !is(r.Err, want[i]) {
			t.Errorf("%s: got %+v", id, r)
		}
		if r := infos[i]; r.ID != id || !is(r.Err, want[i]) {
			t.Errorf("%s: got %+v", id, r)
		}
		statuses = append(statuses, facade.ContainerStatus{ID: id, State: facade.ContainerRunning, Message: id})
	}
	told, err := w.SetContainerStatus(t.Context(), statuses)
	if err != nil || len(told) != len(ids) {
		t.Fatalf("got %v, %v", told, err)
	}
	for i := range told {
		// A status can be told of one whose file is malformed, too.
		if (told[i] == nil) != (i > 0) {
			t.Errorf("%s: got %v", ids[i], told[i])
		}
	}
}

func TestWhatIsLearntOfContainersIsKeptAndPrivate(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0", "0-box-1"))
	w.setStatus("0/box/0", facade.ContainerRunning, "two\nlines")
	w.record("0/box/0", "juju-1")
	nonce, address := w.nonce("0/box/0"), w.address("0/box/0")
	network := []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"10.0.0.5/24"}}}
	if err := w.SetHostMachineNetworkConfig(t.Context(), "0", network); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		got := w.containerOf("0/box/0")
		if got.InstanceID != "juju-1" || got.Status != facade.ContainerRunning {
			t.Errorf("got %+v", got)
		}
		if w.nonce("0/box/0") != nonce || w.address("0/box/0") != address {
			t.Error("another nonce or address")
		}
		want := map[string]any{
			"life": "alive", "state": "running", "message": "two lines", "instance": "juju-1", "addresses": []string{address},
		}
		if got := w.report("containers", "0/box/0"); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := w.report("machine", "network", "eth0"); !reflect.DeepEqual(got, []string{"10.0.0.5/24"}) {
			t.Errorf("got %v", got)
		}
	}
	check()
	w.restart()
	check()
	info, err := os.Stat(w.path(".agent/containers.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	// The same again is harmless; another instance is not taken.
	w.record("0/box/0", "juju-1")
	results, err := w.SetInstanceInfo(t.Context(), []facade.InstanceInfo{{ID: "0/box/0", InstanceID: "juju-2", Nonce: nonce}})
	if err != nil || !errors.Is(results[0], errors.AlreadyExists) {
		t.Errorf("got %v, %v", results, err)
	}
	check()
}

func TestLongMessagesAreCut(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0"))
	w.setStatus("0/box/0", facade.ContainerError, strings.Repeat("ü", maxMessage)+"\xff")
	if text, _ := w.report("containers", "0/box/0", "message").(string); len(text) > maxMessage+3 || !strings.HasSuffix(text, "...") {
		t.Errorf("got %d bytes", len(text))
	}
}

func TestStatusThatCannotBeKeptIsAnErrorAndNotTold(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0"))
	w.rename(".agent", "elsewhere")
	if _, err := w.SetContainerStatus(t.Context(), []facade.ContainerStatus{{ID: "0/box/0", State: facade.ContainerRunning}}); err == nil {
		t.Error("want an error")
	}
	if got := w.containerOf("0/box/0"); got.Status != facade.ContainerPending {
		t.Errorf("got %+v", got)
	}
	w.rename("elsewhere", ".agent")
}

func TestAddressesAreOfTheRangeAndEachIsGivenOnce(t *testing.T) {
	var names []string
	for i := range 254 {
		names = append(names, fmt.Sprintf("0-box-%d", i))
	}
	w := newWorld(t, machineFiles(names...))
	err := w.state.containers.update(func(k *kept) error { // at once, and not file by file
		for i := range 253 {
			if err := k.allocate(fmt.Sprintf("0/box/%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i := range 253 {
		address := w.address(fmt.Sprintf("0/box/%d", i))
		prefix, err := netip.ParsePrefix(address)
		if err != nil || prefix.Masked().String() != addressRange || seen[address] || prefix.Addr().String() == gateway {
			t.Fatalf("got %s, %v", address, err)
		}
		seen[address] = true
	}
	if _, err := w.PrepareContainerInterfaceInfo(t.Context(), "0/box/253"); !errors.Is(err, errors.QuotaLimitExceeded) {
		t.Errorf("got %v, want QuotaLimitExceeded", err)
	}
	given := w.address("0/box/7")
	if err := w.ReleaseContainerAddresses(t.Context(), "0/box/7"); err != nil {
		t.Fatal(err)
	}
	if again := w.address("0/box/253"); again != given {
		t.Errorf("got %s, want the one that was given back, %s", again, given)
	}
}

func TestHostsOwnAddressIsNotGivenAway(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0"))
	network := []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"192.0.2.2/24", "fd00::2/64"}}}
	if err := w.SetHostMachineNetworkConfig(t.Context(), "0", network); err != nil {
		t.Fatal(err)
	}
	if got := w.address("0/box/0"); got != "192.0.2.3/24" {
		t.Errorf("got %s", got)
	}
}

func TestContainerOnTheNetworkOfADeviceIsOnItsBridge(t *testing.T) {
	files := machineFiles()
	for name, device := range map[string]string{"0-lxd-0": "eth0", "0-lxd-1": "br0", "0-lxd-2": "eth9", "0-box-3": "eth0"} {
		files["containers/"+name+".yaml"] = "bridge: " + device + "\n"
	}
	w := newWorld(t, files)
	network := []facade.NetworkInterface{
		{Name: "eth0", MAC: "02:00:00:00:00:01", Type: facade.EthernetInterface, Addresses: []string{"192.0.2.2/24"}},
		{Name: "br0", MAC: "02:00:00:00:00:02", Type: facade.BridgeInterface},
	}
	if err := w.SetHostMachineNetworkConfig(t.Context(), "0", network); err != nil {
		t.Fatal(err)
	}
	eth0 := []facade.DeviceToBridge{{Device: "eth0", MAC: "02:00:00:00:00:01", Bridge: "br-eth0"}}
	for id, want := range map[string]struct {
		devices []facade.DeviceToBridge
		parent  string
	}{
		"0/lxd/0": {eth0, "br-eth0"},
		"0/lxd/1": {nil, "br0"},
		"0/box/3": {eth0, "br-eth0"},
	} {
		changes, err := w.HostChangesForContainer(t.Context(), id)
		if err != nil || !reflect.DeepEqual(changes.Devices, want.devices) || changes.Validate() != nil {
			t.Errorf("%s: got %+v, %v", id, changes, err)
		}
		interfaces, err := w.PrepareContainerInterfaceInfo(t.Context(), id)
		if err != nil || len(interfaces) != 1 || interfaces[0].Parent != want.parent || len(interfaces[0].Addresses) > 0 || interfaces[0].Validate() != nil {
			t.Errorf("%s: got %+v, %v", id, interfaces, err)
		}
	}
	// Not NotFound, which would say that the container is gone.
	const want = `bridge for "eth9", which is no device of this machine, not valid`
	_, changesErr := w.HostChangesForContainer(t.Context(), "0/lxd/2")
	_, interfacesErr := w.PrepareContainerInterfaceInfo(t.Context(), "0/lxd/2")
	for _, err := range []error{changesErr, interfacesErr} {
		if !errors.Is(err, errors.NotValid) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAddressOutlivesTheFileUntilItIsGivenBack(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0", "0-box-1"))
	address := w.address("0/box/0")
	w.record("0/box/0", "juju-1")
	w.rename("containers/0-box-0.yaml", "0-box-0.yaml")
	w.eventually("gone", func() bool { return errors.Is(w.containerOf("0/box/0").Err, errors.NotFound) })
	if w.address("0/box/1") == address {
		t.Error("the address of an instance that may be left was given away")
	}
	// Back, it is another container that has the address still.
	w.rename("0-box-0.yaml", "containers/0-box-0.yaml")
	w.eventually("back", func() bool { return w.containerOf("0/box/0").Err == nil })
	if got := w.containerOf("0/box/0"); got.InstanceID != "" || got.Status != facade.ContainerPending || w.address("0/box/0") != address {
		t.Errorf("got %+v at %s", got, w.address("0/box/0"))
	}
	w.rename("containers/0-box-0.yaml", "0-box-0.yaml")
	w.eventually("gone again", func() bool { return errors.Is(w.containerOf("0/box/0").Err, errors.NotFound) })
	if err := w.ReleaseContainerAddresses(t.Context(), "0/box/0"); err != nil {
		t.Fatal(err)
	}
	if _, ok := w.state.containers.of("0/box/0"); ok {
		t.Error("something is left of it")
	}
}

func TestRetryAsksAgainAlsoWhileNobodyWasThere(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0", "0-box-1"))
	containers, err := w.WatchContainers(t.Context(), "0", "box")
	containers = w.watching(containers, err, "0/box/0", "0/box/1")
	w.record("0/box/1", "juju-1")
	w.setStatus("0/box/0", facade.ContainerError, "why")
	w.setStatus("0/box/1", facade.ContainerError, "lost")

	w.write("containers/0-box-0.yaml", "retry: 1\n")
	w.expect(containers, "0/box/0")
	w.eventually("asked again", func() bool { return w.containerOf("0/box/0").Status == facade.ContainerPending })
	if got := w.report("containers", "0/box/0", "message"); got != "why" {
		t.Errorf("got %v, want the reason to stand until there is news", got)
	}
	// One that has an instance is not made anew by that.
	w.write("containers/0-box-1.yaml", "retry: 1\n")
	w.expect(containers, "0/box/1")
	if got := w.containerOf("0/box/1"); got.Status != facade.ContainerError {
		t.Errorf("got %+v", got)
	}

	w.setStatus("0/box/0", facade.ContainerError, "why")
	w.restart()
	if got := w.containerOf("0/box/0"); got.Status != facade.ContainerError {
		t.Errorf("got %+v, want a start of the agent to ask for nothing", got)
	}
	w.stop()
	w.write("containers/0-box-0.yaml", "retry: 2\n")
	w.start()
	if got := w.containerOf("0/box/0"); got.Status != facade.ContainerPending {
		t.Errorf("got %+v", got)
	}
}

// TestContainerThatWasGivenUpIsStartedWhenAskedForAgain has the real provisioner
// between a person's file and a host that fails.
func TestContainerThatWasGivenUpIsStartedWhenAskedForAgain(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0"))
	host := fakes.NewHost(fakes.NewFaults(clock.WallClock))
	backend := host.Backend("box")
	if err := backend.Initialiser.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	broker, err := backend.NewBroker(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	host.Faults().Fail("StartInstance", "0/box/0", errors.New("no luck"))
	host.Faults().Fail("StartInstance", "0/box/0", errors.New("no luck"))
	provisioner, err := containerprovisioner.New(containerprovisioner.Config{
		Facade: w.Controller, MachineID: "0", Type: "box", Broker: broker, Clock: clock.WallClock, MaxAttempts: 2,
		Backoff: func(time.Duration, int) time.Duration { return time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(provisioner) }()
	w.eventually("given up", func() bool { return w.containerOf("0/box/0").Status == facade.ContainerError })
	if text, _ := w.report("containers", "0/box/0", "message").(string); !strings.Contains(text, "no luck") {
		t.Errorf("got %q", text)
	}
	w.write("containers/0-box-0.yaml", "retry: once more\n")
	w.eventually("started", func() bool { return w.containerOf("0/box/0").Status == facade.ContainerRunning })
	w.write("containers/0-box-0.yaml", "life: dead\n")
	w.eventually("removed", func() bool { return errors.Is(w.containerOf("0/box/0").Err, errors.NotFound) })
	if got := host.Instances(); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestRemovedContainersFileIsPutAway(t *testing.T) {
	files := machineFiles("0-box-1")
	files["containers/0-box-0.yaml"] = "life: dead\nuser-data: secret-canary\n"
	w := newWorld(t, files)
	containers, err := w.WatchAllContainers(t.Context(), "0")
	containers = w.watching(containers, err, "0/box/0", "0/box/1")
	w.address("0/box/0")
	if err := os.Chmod(w.path("containers/0-box-0.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	results, err := w.MarkForRemoval(t.Context(), []string{"0/box/1", "0/box/0", "0/box/0"})
	if err != nil || len(results) != 3 || !errors.Is(results[0], errors.NotValid) || results[1] != nil || !errors.Is(results[2], errors.NotFound) {
		t.Errorf("got %v, %v", results, err)
	}
	// At once, and not when the directory is read next.
	if got := w.containerOf("0/box/0"); !errors.Is(got.Err, errors.NotFound) {
		t.Errorf("got %+v", got)
	}
	w.expect(containers, "0/box/0")
	put := w.path(".agent/removed/0-box-0.yaml")
	data, err := os.ReadFile(put)
	if err != nil || !strings.Contains(string(data), "secret-canary") {
		t.Errorf("got %q, %v", data, err)
	}
	for _, path := range []string{put, filepath.Dir(put)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got %v, %v", path, info, err)
		}
	}
}

// TestDeadIsForGood has a person change their mind: what is dead is removed, and
// the file is about the next container of that id.
func TestDeadIsForGood(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0"))
	w.record("0/box/0", "juju-1")
	nonce := w.nonce("0/box/0")
	w.write("containers/0-box-0.yaml", "life: dead\n")
	w.eventually("dead", func() bool { return w.containerOf("0/box/0").Life == facade.Dead })
	w.write("containers/0-box-0.yaml", "retry: 1\n")
	containers, err := w.WatchContainers(t.Context(), "0", "box")
	containers = w.watching(containers, err, "0/box/0")
	w.expect(containers, "0/box/0")
	w.restart()
	if got := w.containerOf("0/box/0"); got.Life != facade.Dead || got.InstanceID != "juju-1" || w.report("containers", "0/box/0", "life") != "dead" {
		t.Errorf("got %+v", got)
	}
	containers, err = w.WatchContainers(t.Context(), "0", "box")
	containers = w.watching(containers, err, "0/box/0")
	if results, err := w.MarkForRemoval(t.Context(), []string{"0/box/0"}); err != nil || results[0] != nil {
		t.Fatalf("got %v, %v", results, err)
	}
	w.expect(containers, "0/box/0")
	want := facade.ContainerResult{ID: "0/box/0", Life: facade.Alive, Status: facade.ContainerPending}
	if got := w.containerOf("0/box/0"); got != want || w.nonce("0/box/0") == nonce {
		t.Errorf("got %+v, want another one", got)
	}
	if _, err := os.Stat(w.path(".agent/removed")); !os.IsNotExist(err) {
		t.Errorf("the file of the new one was put away: %v", err)
	}
}

func TestChangesOfContainersAreTold(t *testing.T) {
	w := newWorld(t, machineFiles("0-box-0", "0-lxd-0"))
	all, err := w.WatchAllContainers(t.Context(), "0")
	all = w.watching(all, err, "0/box/0", "0/lxd/0")
	boxes, err := w.WatchContainers(t.Context(), "0", "box")
	boxes = w.watching(boxes, err, "0/box/0")
	kvms, err := w.WatchContainers(t.Context(), "0", "kvm")
	w.watching(kvms, err)
	mode, err := w.WatchHarvestMode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Stop(mode) }()
	<-mode.Changes()

	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"a file written in place", func() { w.write("containers/0-box-0.yaml", "life: dying\n") }, "0/box/0"},
		{"one replaced, as editors do", func() {
			w.write("containers/0-box-0.yaml~", "life: dead\n")
			w.rename("containers/0-box-0.yaml~", "containers/0-box-0.yaml")
		}, "0/box/0"},
		{"a new one", func() { w.write("containers/0-box-1.yaml", "") }, "0/box/1"},
		{"one that is malformed", func() { w.write("containers/0-box-1.yaml", "life: alife\n") }, "0/box/1"},
		{"one removed", func() { w.rename("containers/0-box-0.yaml", "x") }, "0/box/0"},
	} {
		t.Log(step.name)
		step.do()
		w.expect(all, step.want)
		w.expect(boxes, step.want)
	}
	w.write("machine.yaml", machineYAML+"harvest: all\n")
	select {
	case <-mode.Changes():
	case <-time.After(deadline):
		t.Fatal("no event about the harvest mode")
	}
	if got, err := w.HarvestMode(t.Context()); got != facade.HarvestAll || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	select {
	case got := <-kvms.Changes():
		t.Errorf("got %v of another type", got)
	default:
	}
	w.stop()
	for _, watcher := range []worker.Worker{all, boxes, kvms, mode} {
		if err := watcher.Wait(); !errors.Is(err, facade.ErrConnectionLost) {
			t.Errorf("got %v, want ErrConnectionLost", err)
		}
	}
	w.start() // for the clean-up
}

func TestMachineThatCannotBeReadChangesNothing(t *testing.T) {
	files := machineFiles("0-box-0")
	files["applications/db/application.yaml"] = ""
	w := newWorld(t, files)
	w.record("0/box/0", "juju-1")
	for _, trouble := range []struct {
		name       string
		begin, end func()
		want       string
	}{
		{"machine.yaml is malformed",
			func() { w.write("machine.yaml", "id: 0\n") },
			func() { w.write("machine.yaml", machineYAML) },
			"machine.yaml:1: containers: want the types of containers that the machine can have, or []"},
		{"machine.yaml is gone",
			func() { w.rename("machine.yaml", "x") },
			func() { w.rename("x", "machine.yaml") },
			"machine.yaml: is not there any more, going on with what it was"},
		{"another machine",
			func() { w.write("machine.yaml", "id: 7\ncontainers: [box]\n") },
			func() { w.write("machine.yaml", machineYAML) },
			"machine.yaml: id: another one takes a new start of the agent"},
		{"other types",
			func() { w.write("machine.yaml", "id: 0\ncontainers: [box]\n") },
			func() { w.write("machine.yaml", machineYAML) },
			"machine.yaml: containers: other types take a new start of the agent"},
		{"the directory is gone, as if not mounted",
			func() { w.rename("containers", "unmounted") },
			func() { w.rename("unmounted", "containers") },
			"containers: is not there"},
	} {
		t.Log(trouble.name)
		trouble.begin()
		w.eventually(trouble.want, func() bool {
			problems, _ := w.report("problems").([]any)
			return slices.Contains(problems, any(trouble.want))
		})
		if got := w.containerOf("0/box/0"); got.Err != nil || got.InstanceID != "juju-1" {
			t.Errorf("got %+v; want the last reading to stand", got)
		}
		if types, err := w.SupportedContainers(t.Context(), "0"); err != nil || len(types) != 2 {
			t.Errorf("got %v, %v", types, err)
		}
		// Applications are read meanwhile.
		w.write("applications/db/application.yaml", "life: dying\n")
		w.eventually("applications go on", func() bool {
			life, err := w.Life(t.Context(), "db")
			return life == facade.Dying && err == nil
		})
		trouble.end()
		w.write("applications/db/application.yaml", "")
		w.eventually("mended", func() bool { return w.report("problems") == nil })
	}
}

func TestMachineThatComesLateTakesANewStart(t *testing.T) {
	w := newWorld(t, nil)
	const want = "machine.yaml: was not there when the agent started, and takes a new start of it"
	told := func() bool {
		problems, _ := w.report("problems").([]any)
		return slices.Contains(problems, any(want))
	}
	w.mkdir("containers")
	w.write("machine.yaml", "id: [\n") // also when it was malformed first
	w.eventually("malformed", func() bool { return w.report("problems") != nil })
	w.write("machine.yaml", machineYAML)
	w.write("containers/0-box-0.yaml", "")
	w.eventually("told", told)
	if w.report("containers") != nil || w.report("machine") != nil {
		t.Error("the machine is reported")
	}
	w.restart()
	if got := w.containerOf("0/box/0"); got.Status != facade.ContainerPending || told() {
		t.Errorf("got %+v", got)
	}
}
