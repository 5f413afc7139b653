package fakes_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// unread returns what there is to be read of the watcher.
func unread(w facade.StringsWatcher) string {
	select {
	case ids := <-w.Changes():
		slices.Sort(ids)
		return "[" + strings.Join(ids, " ") + "]"
	default:
		return "nothing"
	}
}

func TestWatchersOfContainers(t *testing.T) {
	_, m, _ := site()
	m.AddContainer("0/lxd/0", fakes.Container{})
	m.AddContainer("0/kvm/0", fakes.Container{})
	all, err := m.WatchAllContainers(t.Context(), "0")
	if err != nil {
		t.Fatal(err)
	}
	lxd, err := m.WatchContainers(t.Context(), "0", "lxd")
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name     string
		do       func()
		all, lxd string
	}{
		{"baseline", func() {}, "[0/kvm/0 0/lxd/0]", "[0/lxd/0]"},
		{"nothing", func() {}, "nothing", "nothing"},
		{"added", func() { m.AddContainer("0/lxd/1", fakes.Container{}) }, "[0/lxd/1]", "[0/lxd/1]"},
		{"another type", func() { m.SetLife("0/kvm/0", facade.Dying) }, "[0/kvm/0]", "nothing"},
		{"nested", func() { m.AddContainer("0/lxd/1/lxd/0", fakes.Container{}) }, "[0/lxd/1/lxd/0]", "nothing"},
		{"another machine's", func() { m.AddContainer("1/lxd/1", fakes.Container{}) }, "[1/lxd/1]", "nothing"},
		{"none", func() { m.AddContainer("", fakes.Container{}) }, "[]", "nothing"},
		{"asked again", func() { m.AskAgain("0/lxd/0") }, "[0/lxd/0]", "[0/lxd/0]"},
		{"info", func() { m.SetContainerInfo("0/lxd/0", facade.ContainerProvisioningInfo{}) }, "[0/lxd/0]", "[0/lxd/0]"},
		{"removed", func() { m.RemoveContainer("0/lxd/1") }, "[0/lxd/1]", "[0/lxd/1]"},
		{"removed twice", func() { m.RemoveContainer("0/lxd/1") }, "nothing", "nothing"},
		{"not there", func() { m.SetLife("0/lxd/1", facade.Dead); m.AskAgain("0/lxd/1") }, "nothing", "nothing"},
		{"status by the worker", func() {
			_, _ = m.SetContainerStatus(t.Context(), []facade.ContainerStatus{{ID: "0/lxd/0", State: facade.ContainerRunning}})
		}, "nothing", "nothing"},
		{"several", func() { m.SetLife("0/lxd/0", facade.Dead); m.SetLife("0/kvm/0", facade.Dead) }, "[0/kvm/0 0/lxd/0]", "[0/lxd/0]"},
		{"marked", func() { _, _ = m.MarkForRemoval(t.Context(), []string{"0/lxd/0"}) }, "[0/lxd/0]", "[0/lxd/0]"},
	}
	for _, s := range steps {
		s.do()
		if a, l := unread(all), unread(lxd); a != s.all || l != s.lxd {
			t.Errorf("%s: all %s, want %s; lxd %s, want %s", s.name, a, s.all, l, s.lxd)
		}
	}
	if got := m.IDs(); !slices.Equal(got, []string{"", "0/kvm/0", "0/lxd/1/lxd/0", "1/lxd/1"}) {
		t.Errorf("left %q", got)
	}

	if len(m.ContainerWatchers("")) != 1 || len(m.ContainerWatchers("lxd")) != 1 || len(m.ContainerWatchers("kvm")) != 0 {
		t.Error("watchers are mixed up")
	}
	if other := m.Session(fakes.NewFaults(clock.WallClock)); len(other.ContainerWatchers("lxd")) != 0 {
		t.Error("another session has them too")
	}
	m.ContainerWatchers("lxd")[0].Fail(boom)
	if err := lxd.Wait(); !errors.Is(err, boom) || len(m.ContainerWatchers("lxd")) != 0 {
		t.Errorf("ended with %v", err)
	}
}

func TestAnotherMachineIsNotFound(t *testing.T) {
	_, m, _ := site()
	ctx := t.Context()
	if m.ID() != "0" {
		t.Errorf("id %q", m.ID())
	}
	for name, err := range map[string]error{
		"WatchAllContainers":          second(m.WatchAllContainers(ctx, "1")),
		"WatchContainers":             second(m.WatchContainers(ctx, "1", "lxd")),
		"SupportedContainers":         second(m.SupportedContainers(ctx, "1")),
		"SetHostMachineNetworkConfig": m.SetHostMachineNetworkConfig(ctx, "1", nil),
	} {
		if !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, typ := range []facade.ContainerType{"", "LXD", "l/xd"} {
		if _, err := m.WatchContainers(ctx, "0", typ); !errors.Is(err, errors.NotValid) {
			t.Errorf("WatchContainers of %q: %v", typ, err)
		}
		if _, err := m.ContainerManagerConfig(ctx, typ); !errors.Is(err, errors.NotValid) {
			t.Errorf("ContainerManagerConfig of %q: %v", typ, err)
		}
	}
}

func TestSupportedTypesAndTheirSettings(t *testing.T) {
	_, m, _ := site()
	ctx := t.Context()
	if got, err := m.SupportedContainers(ctx, "0"); err != nil || !slices.Equal(got, []facade.ContainerType{"lxd", "kvm"}) {
		t.Errorf("supported %q, %v", got, err)
	}
	m.SetSupported("lxd", "lxd")
	if got, err := m.SupportedContainers(ctx, "0"); err != nil || !slices.Equal(got, []facade.ContainerType{"lxd", "lxd"}) {
		t.Errorf("supported %q, %v", got, err)
	}
	m.SetSupported()
	if got, err := m.SupportedContainers(ctx, "0"); err != nil || len(got) != 0 {
		t.Errorf("supported %q, %v", got, err)
	}
	if cfg, err := m.ContainerManagerConfig(ctx, "lxd"); err != nil || cfg["model-uuid"] != fakes.ModelUUID {
		t.Errorf("settings %v, %v", cfg, err)
	}
	given := facade.ContainerManagerConfig{"image-source": "https://images.example.com"}
	m.SetManagerConfig("lxd", given)
	given["image-source"] = "changed"
	if cfg, err := m.ContainerManagerConfig(ctx, "lxd"); err != nil || len(cfg) != 1 || cfg["image-source"] != "https://images.example.com" {
		t.Errorf("settings %v, %v", cfg, err)
	}
	m.SetManagerConfig("lxd", nil)
	if cfg, err := m.ContainerManagerConfig(ctx, "lxd"); err != nil || cfg != nil {
		t.Errorf("settings %v, %v", cfg, err)
	}
}

func TestBulkCallsAnswerForEach(t *testing.T) {
	f, m, _ := site()
	m.AddContainer("0/lxd/0", fakes.Container{InstanceID: "juju-0"})
	m.AddContainer("0/lxd/1", fakes.Container{Life: facade.Dead, State: facade.ContainerError})
	f.Add(fakes.Rule{Method: "Containers", Key: "0/lxd/1", Effect: fakes.Effect{Err: boom}})
	ids := []string{"0/lxd/1", "0/lxd/7", "0/lxd/0"}
	got, err := m.Containers(t.Context(), ids)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for i, want := range []error{boom, errors.NotFound, nil} {
		if got[i].ID != ids[i] || want == nil != (got[i].Err == nil) || want != nil && !errors.Is(got[i].Err, want) {
			t.Errorf("result %d: %+v", i, got[i])
		}
	}
	if r := got[2]; r.Life != facade.Alive || r.InstanceID != "juju-0" || r.Status != facade.ContainerPending {
		t.Errorf("result %+v", r)
	}

	infos, err := m.ProvisioningInfo(t.Context(), ids)
	if err != nil || !errors.Is(infos[1].Err, errors.NotFound) || infos[0].Err != nil || infos[0].ID != ids[0] {
		t.Errorf("infos %+v, %v", infos, err)
	}
	if err := infos[2].Info.Validate(); err != nil {
		t.Error(err)
	}
	infos[2].Info.Tags["model"] = "changed"
	if infos, _ = m.ProvisioningInfo(t.Context(), ids); infos[2].Info.Tags["model"] != fakes.ModelUUID {
		t.Error("the info is shared")
	}

	f.Add(fakes.Rule{Method: "Containers", Effect: fakes.Effect{Answer: fakes.Short[facade.ContainerResult]()}})
	if got, err := m.Containers(t.Context(), ids); err != nil || len(got) != 2 {
		t.Errorf("short answer %v, %v", got, err)
	}
	if got, err := m.Containers(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if f.Count("Containers", "0/lxd/0") != 2 || f.Count("Containers", "") != 3 {
		t.Errorf("counted %d and %d", f.Count("Containers", "0/lxd/0"), f.Count("Containers", ""))
	}
}

func TestStatusesAreKept(t *testing.T) {
	f, m, _ := site()
	m.AddContainer("0/lxd/0", fakes.Container{})
	if got := m.Status("0/lxd/0"); got.State != facade.ContainerPending {
		t.Errorf("status %+v", got)
	}
	results, err := m.SetContainerStatus(t.Context(), []facade.ContainerStatus{
		{ID: "0/lxd/0", State: facade.ContainerProvisioning, Message: "starting"},
		{ID: "0/lxd/0", State: "dancing"},
		{ID: "0/lxd/1", State: facade.ContainerRunning},
		{ID: "0/lxd/0", State: facade.ContainerError, Message: "no image"},
	})
	if err != nil || results[0] != nil || !errors.Is(results[1], errors.NotValid) || !errors.Is(results[2], errors.NotFound) || results[3] != nil {
		t.Errorf("results %v, %v", results, err)
	}
	if got := m.Status("0/lxd/0"); got.State != facade.ContainerError || got.Message != "no image" || got.Time.IsZero() {
		t.Errorf("status %+v", got)
	}
	m.AskAgain("0/lxd/0")
	if got := m.Statuses("0/lxd/0"); len(got) != 3 || got[0].Message != "starting" || got[2].State != facade.ContainerPending {
		t.Errorf("statuses %+v", got)
	}
	if got := m.Statuses("0/lxd/1"); got != nil {
		t.Errorf("statuses of none %+v", got)
	}

	// Half of a list, and the answer lost.
	m.AddContainer("0/lxd/1", fakes.Container{})
	f.Add(fakes.Rule{Method: "SetContainerStatus", Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
	_, err = m.SetContainerStatus(t.Context(), []facade.ContainerStatus{
		{ID: "0/lxd/0", State: facade.ContainerRunning}, {ID: "0/lxd/1", State: facade.ContainerRunning},
	})
	if !errors.Is(err, boom) || m.Status("0/lxd/0").State != facade.ContainerRunning || m.Status("0/lxd/1").State != facade.ContainerPending {
		t.Errorf("half: %v, %v, %v", err, m.Status("0/lxd/0"), m.Status("0/lxd/1"))
	}
}

func TestInstancesAreRecordedOnce(t *testing.T) {
	f, m, _ := site()
	m.AddContainer("0/lxd/0", fakes.Container{})
	record := func(info facade.InstanceInfo) error {
		t.Helper()
		results, err := m.SetInstanceInfo(t.Context(), []facade.InstanceInfo{info})
		if err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	right := facade.InstanceInfo{
		ID: "0/lxd/0", InstanceID: "juju-0", Nonce: fakes.ContainerInfo("0/lxd/0").Nonce,
		Interfaces: []facade.NetworkInterface{{Name: "eth0"}},
	}
	with := func(change func(*facade.InstanceInfo)) facade.InstanceInfo {
		info := right
		change(&info)
		return info
	}
	f.Add(fakes.Rule{Key: "0/lxd/0", Effect: fakes.Effect{Err: boom, Act: fakes.Fully}})
	steps := []struct {
		name string
		info facade.InstanceInfo
		err  error
	}{
		{"lost reply", right, boom},
		{"again", right, nil},
		{"another", with(func(i *facade.InstanceInfo) { i.InstanceID = "juju-1" }), errors.AlreadyExists},
		{"none", with(func(i *facade.InstanceInfo) { i.InstanceID = "" }), errors.NotValid},
		{"wrong nonce", with(func(i *facade.InstanceInfo) { i.Nonce = "" }), errors.NotValid},
		{"not there", with(func(i *facade.InstanceInfo) { i.ID = "0/lxd/1" }), errors.NotFound},
	}
	for _, s := range steps {
		if err := record(s.info); s.err == nil != (err == nil) || s.err != nil && !errors.Is(err, s.err) {
			t.Errorf("%s: %v, want %v", s.name, err, s.err)
		}
	}
	right.Interfaces[0].Name = "changed"
	got := m.InstanceInfo("0/lxd/0")
	if got.InstanceID != "juju-0" || got.Interfaces[0].Name != "eth0" || m.Recordings("0/lxd/0") != 1 {
		t.Errorf("recorded %+v, %d times", got, m.Recordings("0/lxd/0"))
	}
	if got := m.InstanceInfo("0/lxd/1"); got.InstanceID != "" || m.Recordings("0/lxd/1") != 0 {
		t.Errorf("recorded of none %+v", got)
	}
}

func TestOnlyTheDeadAreRemoved(t *testing.T) {
	_, m, _ := site()
	m.AddContainer("0/lxd/0", fakes.Container{})
	m.AddContainer("0/lxd/1", fakes.Container{Life: facade.Dead})
	results, err := m.MarkForRemoval(t.Context(), []string{"0/lxd/0", "0/lxd/1", "0/lxd/1"})
	if err != nil || !errors.Is(results[0], errors.NotValid) || results[1] != nil || !errors.Is(results[2], errors.NotFound) {
		t.Errorf("results %v, %v", results, err)
	}
	if m.Life("0/lxd/0") != facade.Alive || m.Life("0/lxd/1") != "" {
		t.Errorf("left %q", m.IDs())
	}
}

func TestAddressesAreGivenOnceAndGivenBack(t *testing.T) {
	_, m, _ := site()
	ctx := t.Context()
	for _, id := range []string{"0/lxd/0", "0/lxd/1", "0/lxd/2"} {
		m.AddContainer(id, fakes.Container{})
	}
	m.AddContainer("0/lxd/3", fakes.Container{Devices: []facade.DeviceToBridge{}})
	m.AddContainer("0/lxd/4", fakes.Container{Interfaces: []facade.NetworkInterface{{Name: "net7"}}})
	seen := map[string]bool{}
	for _, id := range m.IDs() {
		got, err := m.PrepareContainerInterfaceInfo(ctx, id)
		again, err2 := m.PrepareContainerInterfaceInfo(ctx, id)
		if err != nil || err2 != nil || len(got) != 1 || got[0].Name != again[0].Name || !slices.Equal(got[0].Addresses, again[0].Addresses) {
			t.Fatalf("%s: %v, %v, %v, %v", id, got, again, err, err2)
		}
		if err := got[0].Validate(); err != nil {
			t.Error(err)
		}
		for _, a := range got[0].Addresses {
			if seen[a] {
				t.Errorf("address %s given twice", a)
			}
			seen[a] = true
		}
		wantParent := map[string]string{"0/lxd/3": "", "0/lxd/4": ""}
		if parent, ok := wantParent[id]; !ok && got[0].Parent != "br-eth0" || ok && got[0].Parent != parent {
			t.Errorf("%s: parent %q", id, got[0].Parent)
		}
	}
	m.RemoveContainer("0/lxd/2")
	if _, err := m.PrepareContainerInterfaceInfo(ctx, "0/lxd/2"); !errors.Is(err, errors.NotFound) {
		t.Errorf("of one that is gone: %v", err)
	}
	for _, id := range []string{"0/lxd/0", "0/lxd/0", "0/lxd/1", "0/lxd/3", "0/lxd/4", "0/lxd/9"} {
		if err := m.ReleaseContainerAddresses(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if got := m.Addresses(); !slices.Equal(got, []string{"0/lxd/2"}) {
		t.Errorf("kept %q", got)
	}
	if a, r := m.Allocations("0/lxd/0"); a != 1 || r != 1 {
		t.Errorf("allocated %d, released %d", a, r)
	}
}

func TestHostChangesGoByThePublishedNetwork(t *testing.T) {
	_, m, _ := site()
	ctx := t.Context()
	two := []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}, {Device: "eth1", Bridge: "br-eth1"}}
	m.AddContainer("0/lxd/0", fakes.Container{Devices: two})
	m.AddContainer("0/lxd/1", fakes.Container{Devices: []facade.DeviceToBridge{}})
	m.SetReconfigureDelay(time.Second)
	asked := func(id string, want ...facade.DeviceToBridge) {
		t.Helper()
		got, err := m.HostChangesForContainer(ctx, id)
		if err != nil || !slices.Equal(got.Devices, want) || (got.ReconfigureDelay == time.Second) != (len(want) > 0) {
			t.Errorf("changes for %s: %+v, %v", id, got, err)
		}
	}
	asked("0/lxd/0", two...)
	asked("0/lxd/1")
	network := fakes.HostInterfaces()
	network[1].Parent = "br-eth0"
	if err := m.SetHostMachineNetworkConfig(ctx, "0", network); err != nil {
		t.Fatal(err)
	}
	asked("0/lxd/0", two[1])
	if err := m.SetHostMachineNetworkConfig(ctx, "0", []facade.NetworkInterface{{Name: "a/b"}}); !errors.Is(err, errors.NotValid) {
		t.Errorf("network that is not valid: %v", err)
	}
	network[2].Parent = "other" // a copy was kept
	got, times := m.Network()
	if times != 1 || len(got) != 3 || got[1].Parent != "br-eth0" || got[2].Parent != "" {
		t.Errorf("published %d times: %+v", times, got)
	}
	if _, err := m.HostChangesForContainer(ctx, "0/lxd/9"); !errors.Is(err, errors.NotFound) {
		t.Errorf("changes for none: %v", err)
	}
}

func TestHostChangesAskedWithoutTheLockAreSeen(t *testing.T) {
	_, m, h := site()
	m.AddContainer("0/lxd/0", fakes.Container{})
	ask := func(m *fakes.Machine) {
		t.Helper()
		if _, err := m.HostChangesForContainer(t.Context(), "0/lxd/0"); err != nil {
			t.Fatal(err)
		}
	}
	ask(m)
	m.RequireLock(h.Lock())
	release := acquire(t, h.Lock(), "a")
	ask(m)
	if got := m.Violations(); len(got) != 0 {
		t.Errorf("violations %q", got)
	}
	ask(m.Session(fakes.NewFaults(clock.WallClock))) // somebody else's
	release()
	ask(m)
	if got := m.Violations(); len(got) != 2 {
		t.Errorf("violations %q", got)
	}
}

func TestHarvestMode(t *testing.T) {
	_, m, _ := site()
	ctx := t.Context()
	w, err := m.WatchHarvestMode(ctx)
	if err != nil {
		t.Fatal(err)
	}
	told := func() bool {
		select {
		case <-w.Changes():
			return true
		default:
			return false
		}
	}
	if mode, err := m.HarvestMode(ctx); err != nil || mode != facade.HarvestDestroyed || !told() || told() {
		t.Errorf("mode %q, %v", mode, err)
	}
	m.SetHarvestMode("all but mine")
	if mode, err := m.HarvestMode(ctx); err != nil || mode != "all but mine" || !told() {
		t.Errorf("mode %q, %v", mode, err)
	}
	if len(m.HarvestWatchers()) != 1 || len(m.Session(fakes.NewFaults(clock.WallClock)).HarvestWatchers()) != 0 {
		t.Error("watchers are mixed up")
	}
	m.HarvestWatchers()[0].End()
	if len(m.HarvestWatchers()) != 0 {
		t.Error("one that has ended is left")
	}
	m.SetHarvestMode(facade.HarvestAll)
	if told() {
		t.Error("one that has ended is told")
	}
}

func TestPlainMachineHasNoOptionalInterface(t *testing.T) {
	_, m, _ := site()
	if _, ok := m.Plain().(facade.HarvestWatcher); ok {
		t.Error("it has")
	}
	if ids, err := m.Plain().SupportedContainers(t.Context(), "0"); err != nil || len(ids) != 2 {
		t.Errorf("supported %q, %v", ids, err)
	}
}

// Every method of the worker's side goes by the faults.
func TestEveryMethodOfAMachineCanFail(t *testing.T) {
	f, m, _ := site()
	ctx := t.Context()
	calls := map[string]func() error{
		"WatchAllContainers":            func() error { return second(m.WatchAllContainers(ctx, "0")) },
		"WatchContainers":               func() error { return second(m.WatchContainers(ctx, "0", "lxd")) },
		"SupportedContainers":           func() error { return second(m.SupportedContainers(ctx, "0")) },
		"ContainerManagerConfig":        func() error { return second(m.ContainerManagerConfig(ctx, "lxd")) },
		"SetHostMachineNetworkConfig":   func() error { return m.SetHostMachineNetworkConfig(ctx, "0", fakes.HostInterfaces()) },
		"HostChangesForContainer":       func() error { return second(m.HostChangesForContainer(ctx, "0/lxd/0")) },
		"PrepareContainerInterfaceInfo": func() error { return second(m.PrepareContainerInterfaceInfo(ctx, "0/lxd/0")) },
		"ReleaseContainerAddresses":     func() error { return m.ReleaseContainerAddresses(ctx, "0/lxd/0") },
		"HarvestMode":                   func() error { return second(m.HarvestMode(ctx)) },
		"WatchHarvestMode":              func() error { return second(m.WatchHarvestMode(ctx)) },
		"Containers":                    func() error { return second(m.Containers(ctx, []string{"0/lxd/0"})) },
		"ProvisioningInfo":              func() error { return second(m.ProvisioningInfo(ctx, []string{"0/lxd/0"})) },
		"SetContainerStatus":            func() error { return second(m.SetContainerStatus(ctx, nil)) },
		"SetInstanceInfo":               func() error { return second(m.SetInstanceInfo(ctx, nil)) },
		"MarkForRemoval":                func() error { return second(m.MarkForRemoval(ctx, nil)) },
	}
	m.AddContainer("0/lxd/0", fakes.Container{})
	for name, call := range calls {
		f.Fail(name, "", boom)
		f.Add(fakes.Rule{Method: name, Effect: fakes.Effect{Err: boom, Act: fakes.Half}})
		for _, want := range []error{boom, boom, nil} {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if f.Count(name, "")+f.Count(name, "0/lxd/0")+f.Count(name, "lxd") < 3 {
			t.Errorf("%s is not recorded", name)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	ctx = cancelled
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a cancelled context: %v", name, err)
		}
	}
	_, times := m.Network()
	if a, _ := m.Allocations("0/lxd/0"); times != 1 || a != 1 {
		t.Errorf("a call that failed has done something: published %d, allocated %d", times, a)
	}
}
