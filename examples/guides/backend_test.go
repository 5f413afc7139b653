package guides_test

import (
	"context"
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/examples/guides"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

func TestBackendPasses(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		home := t.TempDir()
		return backendtest.Harness{
			Backend:     newBackend(t, home),
			Type:        guides.Folder,
			Params:      withInterface,
			Restart:     func() (container.Backend, error) { return guides.NewBackend(home, fakes.ModelUUID) },
			Initialised: changes(home),
			HalfMake: func(id string) error {
				instance, err := startIn(home, fakes.ModelUUID, id)
				if err != nil {
					return err
				}
				return os.Remove(filepath.Join(home, "instances", string(instance), "boot"))
			},
			Foreign: func() (container.InstanceID, error) {
				return startIn(home, "0badcafe-0bad-400d-8000-4b1d0d0cafe5", "0/folder/1")
			},
			Unsupported: newBackend(t, filepath.Join(home, "no-such-supervisor")).Initialiser,
		}
	})
}

func newBackend(t *testing.T, home string) container.Backend {
	t.Helper()
	backend, err := guides.NewBackend(home, fakes.ModelUUID)
	if err != nil {
		t.Fatal(err)
	}
	return backend
}

// withInterface has an interface for which no bridge is named.
func withInterface(id string) container.StartParams {
	params := backendtest.Params(id)
	params.Interfaces = []facade.NetworkInterface{{Name: "eth0", MAC: "00:16:3e:00:00:01"}}
	return params
}

// changes returns a function that counts how often it has found other files in
// the supervisor's home, instances left out.
func changes(home string) func() int {
	count, last := 0, ""
	return func() int {
		var now string
		for _, name := range []string{"folders.conf", "instances"} {
			if info, err := os.Stat(filepath.Join(home, name)); err == nil {
				now += name + info.Mode().String()
				if !info.IsDir() {
					now += info.ModTime().String()
				}
			}
		}
		if now != last {
			count, last = count+1, now
		}
		return count
	}
}

// connect prepares the machine and returns a broker.
func connect(home, model string) (container.Broker, error) {
	ctx := context.Background()
	backend, err := guides.NewBackend(home, model)
	if err != nil {
		return nil, err
	}
	if err := backend.Initialiser.Initialise(ctx); err != nil {
		return nil, err
	}
	return backend.NewBroker(ctx, nil)
}

// startIn starts an instance of a model.
func startIn(home, model, id string) (container.InstanceID, error) {
	broker, err := connect(home, model)
	if err != nil {
		return "", err
	}
	result, err := broker.StartInstance(context.Background(), withInterface(id))
	return result.InstanceID, err
}

func brokerIn(t *testing.T, home string) container.Broker {
	t.Helper()
	broker, err := connect(home, fakes.ModelUUID)
	if err != nil {
		t.Fatal(err)
	}
	return broker
}

// list returns the containers that instances are listed for, those that run
// with a mark.
func list(t *testing.T, broker container.Broker) string {
	t.Helper()
	all, err := broker.AllInstances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range all {
		if i.Running {
			i.ContainerID += "*"
		}
		out = append(out, i.ContainerID)
	}
	return strings.Join(out, " ")
}

// Whatever of the files is there, what has a name is listed, and the next start
// makes the rest.
func TestStartCompletesWhateverACrashHasLeft(t *testing.T) {
	const id = "0/folder/1"
	name := string(fakes.InstanceID(id))
	for about, crash := range map[string]struct {
		do   func(t *testing.T, instances string)
		list string
	}{
		"before it was labelled": {func(t *testing.T, instances string) {
			rename(t, filepath.Join(instances, name), filepath.Join(instances, ".new-"+name))
			remove(t, filepath.Join(instances, ".new-"+name, "label.json"))
		}, ""},
		"before it was named": {func(t *testing.T, instances string) {
			rename(t, filepath.Join(instances, name), filepath.Join(instances, ".new-"+name))
		}, ""},
		"before it ran": {func(t *testing.T, instances string) {
			remove(t, filepath.Join(instances, name, "boot"))
		}, id},
		"before it was known": {func(*testing.T, string) {}, id + "*"},
		"while it was removed": {func(t *testing.T, instances string) {
			rename(t, filepath.Join(instances, name), filepath.Join(instances, ".removed-"+name))
		}, ""},
	} {
		t.Run(about, func(t *testing.T) {
			home := t.TempDir()
			instances := filepath.Join(home, "instances")
			if _, err := startIn(home, fakes.ModelUUID, id); err != nil {
				t.Fatal(err)
			}
			crash.do(t, instances)

			next := brokerIn(t, home)
			if got := list(t, next); got != crash.list {
				t.Errorf("listed are %q, want %q", got, crash.list)
			}
			if _, err := next.StartInstance(t.Context(), withInterface(id)); err != nil {
				t.Fatal(err)
			}
			if got := list(t, next); got != id+"*" {
				t.Errorf("listed are %q", got)
			}
			entries, err := os.ReadDir(instances)
			if err != nil || len(entries) != 1 {
				t.Errorf("%d folders are there, want 1: %v", len(entries), err)
			}
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// What a half-made instance was to be made from may not be so any more.
func TestHalfMadeInstanceIsMadeFromWhatIsSoNow(t *testing.T) {
	const id = "0/folder/1"
	home := t.TempDir()
	instance, err := startIn(home, fakes.ModelUUID, id)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, filepath.Join(home, "instances", string(instance), "boot"))

	params := withInterface(id)
	params.Interfaces[0].MAC = "00:16:3e:00:00:02"
	params.Info.UserData = facade.NewSecret("another")
	result, err := brokerIn(t, home).StartInstance(t.Context(), params)
	if err != nil || result.Interfaces[0].MAC != "00:16:3e:00:00:02" {
		t.Errorf("StartInstance returns %v, %v", result.Interfaces, err)
	}
	data, err := os.ReadFile(filepath.Join(home, "instances", string(instance), "user-data"))
	if err != nil || string(data) != "another" {
		t.Errorf("the user data is the old one (%v)", err)
	}
}

// The digits that a name begins with are not the whole of a model's UUID.
func TestModelsWithTheSamePrefixStayApart(t *testing.T) {
	const id = "0/folder/1"
	home := t.TempDir()
	other := "0badcafe-0bad-400d-8000-4b1d0d" + fakes.ModelUUID[len(fakes.ModelUUID)-6:]
	instance, err := startIn(home, other, id)
	if err != nil {
		t.Fatal(err)
	}
	if instance != fakes.InstanceID(id) {
		t.Fatalf("%q and %q do not clash", instance, fakes.InstanceID(id))
	}

	broker := brokerIn(t, home)
	if got := list(t, broker); got != "" {
		t.Errorf("listed are %q", got)
	}
	if _, err := broker.StartInstance(t.Context(), withInterface(id)); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("StartInstance: %v", err)
	}
	if err := stderrors.Join(broker.StopInstances(t.Context(), instance)...); err != nil {
		t.Errorf("StopInstances: %v", err)
	}
	theirs, err := connect(home, other)
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, theirs); got != id+"*" {
		t.Errorf("the other model has %q", got)
	}
}

// An instance that nobody can tell anything of concerns its own container alone,
// and is not called gone.
func TestDamagedLabelIsItsOwnContainersTrouble(t *testing.T) {
	const damaged, good = "0/folder/1", "0/folder/2"
	for about, content := range map[string]string{
		"nothing in it": "",
		"not JSON":      "canary",
		"no model":      `{"container": "0/folder/1"}`,
		"no container":  `{"model": "x"}`,
	} {
		t.Run(about, func(t *testing.T) {
			home := t.TempDir()
			instance, err := startIn(home, fakes.ModelUUID, damaged)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(home, "instances", string(instance), "label.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}

			broker := brokerIn(t, home)
			_, err = broker.StartInstance(t.Context(), withInterface(damaged))
			results := broker.StopInstances(t.Context(), instance, fakes.InstanceID("0/folder/7"))
			for what, err := range map[string]error{"StartInstance": err, "StopInstances": results[0]} {
				if !errors.Is(err, errors.NotValid) || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if results[1] != nil {
				t.Errorf("StopInstances of another: %v", results[1])
			}
			if _, err := broker.StartInstance(t.Context(), withInterface(good)); err != nil {
				t.Error(err)
			}
			if got := list(t, broker); got != good+"*" {
				t.Errorf("listed are %q", got)
			}
		})
	}
}

func TestInstanceFilesAreForTheirOwnerOnly(t *testing.T) {
	home := t.TempDir()
	instance, err := startIn(home, fakes.ModelUUID, "0/folder/1")
	if err != nil {
		t.Fatal(err)
	}
	secret := withInterface("0/folder/1").Info.UserData.Reveal()
	err = filepath.WalkDir(filepath.Join(home, "instances"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if entry.IsDir() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if has, want := strings.Contains(string(data), secret), entry.Name() == "user-data"; has != want {
			t.Errorf("%s has the user data: %v, want %v", entry.Name(), has, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(home, "instances", string(instance))); err != nil || len(entries) != 3 {
		t.Errorf("%d files are there, want 3: %v", len(entries), err)
	}
}

func TestInterfaceWithoutAParentIsPutOnTheDefaultBridge(t *testing.T) {
	for _, test := range []struct {
		settings facade.ContainerManagerConfig
		want     string
	}{
		{nil, "br0"},
		{facade.ContainerManagerConfig{"default-bridge": "br-lan"}, "br-lan"},
	} {
		home := t.TempDir()
		backend := newBackend(t, home)
		if err := backend.Initialiser.Initialise(t.Context()); err != nil {
			t.Fatal(err)
		}
		broker, err := backend.NewBroker(t.Context(), test.settings)
		if err != nil {
			t.Fatal(err)
		}
		params := withInterface("0/folder/1")
		params.Interfaces = append(params.Interfaces, facade.NetworkInterface{Name: "eth1", Parent: "br-other"})
		result, err := broker.StartInstance(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		var parents []string
		for _, i := range result.Interfaces {
			parents = append(parents, i.Parent)
		}
		if want := []string{test.want, "br-other"}; !slices.Equal(parents, want) {
			t.Errorf("with %v the bridges are %q, want %q", test.settings, parents, want)
		}
		if params.Interfaces[0].Parent != "" {
			t.Error("the caller's interfaces were changed")
		}
	}
}

func TestBackendRefusesWhatItCannotDo(t *testing.T) {
	if _, err := guides.NewBackend("home", fakes.ModelUUID); !errors.Is(err, errors.NotValid) {
		t.Errorf("NewBackend of a relative path: %v", err)
	}
	if _, err := guides.NewBackend(t.TempDir(), "prod"); !errors.Is(err, errors.NotValid) {
		t.Errorf("NewBackend of a wrong UUID: %v", err)
	}
	home := t.TempDir()
	if _, err := newBackend(t, home).NewBroker(t.Context(), nil); !errors.Is(err, errors.NotYetAvailable) {
		t.Errorf("NewBroker of what is not prepared: %v", err)
	}
	settings := facade.ContainerManagerConfig{"default-bridge": "../br0"}
	if _, err := newBackend(t, home).NewBroker(t.Context(), settings); !errors.Is(err, errors.NotValid) {
		t.Errorf("NewBroker with a wrong bridge: %v", err)
	}
	broker := brokerIn(t, home)
	if _, err := broker.StartInstance(t.Context(), withInterface("0/lxd/1")); !errors.Is(err, errors.NotValid) {
		t.Errorf("StartInstance of another type: %v", err)
	}
}

// From the first container that is asked for to the last that is removed, with
// everything around the back end in memory.
func TestHostRunsContainersInFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home := t.TempDir()
		faults := fakes.NewFaults(clock.WallClock)
		machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
		machine.SetSupported(guides.Folder)
		w := setUp(t, machine, host, home)
		defer stop(t, w)

		machine.AddContainer("0/folder/1", fakes.Container{})
		synctest.Wait()
		instance := machine.InstanceInfo("0/folder/1").InstanceID
		if want := "juju-6f2e04-0-folder-1"; instance != want {
			t.Fatalf("the instance %q is recorded, want %q", instance, want)
		}
		if got := machine.Status("0/folder/1").State; got != facade.ContainerRunning {
			t.Errorf("the status is %s", got)
		}
		if _, err := os.Stat(filepath.Join(home, "instances", instance, "boot")); err != nil {
			t.Error(err)
		}

		machine.SetLife("0/folder/1", facade.Dead)
		synctest.Wait()
		if ids := machine.IDs(); len(ids) > 0 {
			t.Errorf("containers %q are left", ids)
		}
		if entries, err := os.ReadDir(filepath.Join(home, "instances")); err != nil || len(entries) > 0 {
			t.Errorf("instances are left: %v, %v", entries, err)
		}
	})
}

// setUp starts a host whose only back end is the one over that home.
func setUp(t *testing.T, machine facade.Machine, host *fakes.Host, home string) *containersetup.Worker {
	t.Helper()
	backend, err := guides.NewBackend(home, fakes.ModelUUID)
	if err != nil {
		t.Fatal(err)
	}
	w, err := containersetup.New(containersetup.Config{
		Facade:    machine,
		MachineID: "0",
		Backends:  map[containersetup.ContainerType]containersetup.Backend{guides.Folder: backend},
		Lock:      host.Lock(),
		Network:   host.Network(),
		Bridger:   host.Bridger(),
		Clock:     clock.WallClock,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func stop(t *testing.T, w *containersetup.Worker) {
	t.Helper()
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
}

func TestHostWithoutASupervisorSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := fakes.NewFaults(clock.WallClock)
		machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
		machine.SetSupported(guides.Folder)
		w := setUp(t, machine, host, filepath.Join(t.TempDir(), "no-such-supervisor"))
		defer stop(t, w)

		machine.AddContainer("0/folder/1", fakes.Container{})
		time.Sleep(time.Hour) // of virtual time: nothing is repeated
		got := machine.Status("0/folder/1")
		want := "folder containers cannot be had on this machine: folder containers without a supervisor not supported"
		if got.State != facade.ContainerError || got.Message != want {
			t.Errorf("the status is %s %q, want error %q", got.State, got.Message, want)
		}
		if n := len(host.Lock().History()); n != 1 {
			t.Errorf("it was tried %d times, want once", n)
		}
	})
}

// Its own logic a host tests with a back end in memory, which fails as told.
func TestHostOutlivesAnInstallationThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := fakes.NewFaults(clock.WallClock)
		machine, host := fakes.NewMachine(faults, "0"), fakes.NewHost(faults)
		faults.Add(fakes.Rule{Method: "Initialise", Key: "lxd", Times: 3, Effect: fakes.Effect{
			Err: errors.New("the package manager is busy"), Act: fakes.Half,
		}})
		w, err := containersetup.New(containersetup.Config{
			Facade:    machine,
			MachineID: "0",
			Backends:  host.Backends(containersetup.LXD),
			Lock:      host.Lock(),
			Network:   host.Network(),
			Bridger:   host.Bridger(),
			Clock:     clock.WallClock,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, w)

		machine.AddContainer("0/lxd/0", fakes.Container{})
		synctest.Wait()
		if got := machine.Status("0/lxd/0").Message; !strings.Contains(got, "the package manager is busy") {
			t.Errorf("users see %q", got)
		}
		time.Sleep(time.Minute)
		if got := host.Running(); !slices.Equal(got, []string{"0/lxd/0"}) {
			t.Errorf("%q run", got)
		}
		if err := host.Lock().CheckFree(); err != nil {
			t.Error(err)
		}
		for _, violation := range host.Violations() {
			t.Error(violation)
		}
	})
}
