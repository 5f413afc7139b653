package kvm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// TestConformanceInMemory holds the back end to what every one has to do, with a libvirt
// that takes no time.
func TestConformanceInMemory(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T) backendtest.Harness {
		s := newScripted(t)
		w := &world{T: t, config: s.config, steps: &stepCounter{}, hook: s.hook}
		backend, err := kvm.NewBackend(s.config)
		if err != nil {
			t.Fatal(err)
		}
		return backendtest.Harness{
			Backend: backend, Type: container.KVM, Params: params,
			Restart: func() (container.Backend, error) { return kvm.NewBackend(s.config) },
			HalfMake: func(id string) error {
				s.broker() // the pool has to be there
				return w.halfMake(id)
			},
			LoseReply: func(string) error {
				s.hook.loseReply("StartDomain")
				return nil
			},
			Foreign: func() (container.InstanceID, error) {
				other := newScripted(t)
				other.libvirt = s.libvirt
				other.config = other.connected(other.config)
				result, err := other.broker().StartInstance(t.Context(), params("0/kvm/77"))
				return result.InstanceID, err
			},
			Unsupported: unsupported(t),
		}
	})
}

// faults are what may become of a call.
func faults() map[string]func(do func() error) error {
	lost := func() error {
		return errors.WithType(errors.WithType(errors.New("no luck"), virt.ErrNoReply), errors.NotYetAvailable)
	}
	return map[string]func(do func() error) error{
		"refused": func(func() error) error { return &virt.Error{Code: 1, Message: "no luck"} },
		"dropped": func(func() error) error { return errors.NewNotYetAvailable(nil, "no luck") },
		"lost":    func(do func() error) error { _ = do(); return lost() },
		"failed":  func(do func() error) error { _ = do(); return errors.New("no luck") },
	}
}

// TestEveryCallMayFail has each call of a whole life refused, dropped, and lose its reply,
// in turn; calling again comes to the same end, and nothing is made twice.
func TestEveryCallMayFail(t *testing.T) {
	t.Parallel()
	clean := newScripted(t)
	var all atomic.Int64
	clean.hook.set(func(_ string, _ bool, do func() error) error { all.Add(1); return do() })
	life(clean)
	if all.Load() < 60 {
		t.Fatalf("a life has %d calls", all.Load())
	}
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range all.Load() {
				s := newScripted(t)
				var count atomic.Int64
				var what atomic.Value
				s.hook.set(func(name string, _ bool, do func() error) error {
					if count.Add(1) != n+1 {
						return do()
					}
					what.Store(name)
					return fault(do)
				})
				life(s)
				if t.Failed() {
					t.Fatalf("when call %d, %v, is %s", n+1, what.Load(), name)
				}
			}
		})
	}
}

// life prepares the host, starts two machines, stops one, and goes on until it has come
// about, as the workers do.
func life(s *scripted) {
	s.Helper()
	ctx := s.Context()
	again := func(what string, do func() error) {
		s.Helper()
		var err error
		for range 4 {
			if err = do(); err == nil {
				return
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "\n") {
				s.Errorf("%s: %q", what, err)
			}
		}
		s.Fatalf("%s: %v", what, err)
	}
	before := s.state()
	again("preparing", func() error { return s.initialiser().Initialise(ctx) })
	var broker *kvm.Broker
	again("connecting", func() (err error) {
		broker, err = kvm.NewBroker(ctx, s.config, nil)
		return err
	})
	var first, second container.StartResult
	again("starting", func() (err error) {
		first, err = broker.StartInstance(ctx, params("0/kvm/0"))
		return err
	})
	again("starting another", func() (err error) {
		second, err = broker.StartInstance(ctx, params("0/kvm/1"))
		return err
	})
	again("stopping", func() error { return broker.StopInstances(ctx, first.InstanceID)[0] })
	var left []container.Instance
	again("listing", func() (err error) {
		left, err = broker.AllInstances(ctx)
		return err
	})
	if len(left) != 1 || left[0].ContainerID != "0/kvm/1" || !left[0].Running {
		s.Errorf("left are %+v", left)
	}
	if n, pools := len(s.libvirt.domains), len(s.libvirt.pools); n != 1 || pools != 1 {
		s.Errorf("libvirt has %d domains, %d pools", n, pools)
	}
	again("planning", func() error {
		plan, err := s.initialiser().Plan(ctx)
		if err == nil && len(plan) > 0 {
			err = errors.Errorf("still to do: %v", plan)
		}
		return err
	})
	again("stopping the other", func() error { return broker.StopInstances(ctx, second.InstanceID)[0] })
	again("undoing", func() error { return s.initialiser().Undo(ctx) })
	if diff := cmp.Diff(before, s.state()); diff != "" {
		s.Errorf("undo left something:\n%s", diff)
	}
}

// TestPreparationIsFinishedAfterACrashAtEveryChange has the agent end before and after each
// change; the next one finishes, and can undo all of it.
func TestPreparationIsFinishedAfterACrashAtEveryChange(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			s := newScripted(t)
			before := s.state()
			count := 0
			s.hook.set(func(_ string, changes bool, do func() error) error {
				if changes {
					count++
				}
				if count < n || count == n && !changes {
					return do()
				}
				if count == n && after {
					_ = do()
				}
				return errKilled
			})
			err := s.initialiser().Initialise(t.Context())
			s.hook.set(nil)
			if err == nil {
				if n < 12 {
					t.Errorf("there were %d changes, want more", n-1)
				}
				break
			}
			i := s.initialiser()
			if err := i.Initialise(t.Context()); err != nil {
				t.Fatalf("after a crash at change %d: %v", n, err)
			}
			if err := i.Undo(t.Context()); err != nil {
				t.Fatalf("after a crash at change %d: %v", n, err)
			}
			if diff := cmp.Diff(before, s.state()); diff != "" {
				t.Errorf("after a crash at change %d undo left something:\n%s", n, diff)
			}
		}
	}
}

func TestImageIsFetchedOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			if _, err := broker.StartInstance(t.Context(), params(fmt.Sprintf("0/kvm/%d", n))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fetched, _ := filepath.Glob(filepath.Join(s.config.StateDir, "images", "base-*.img"))
	if n := len(s.libvirt.domains); n != 6 || len(fetched) != 1 {
		t.Errorf("%d domains, images %v", n, fetched)
	}
}

func TestStubbornMachineIsSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.libvirt.stubborn = true
	broker := s.broker()
	result, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
	if err != nil {
		t.Fatal(err)
	}
	if errs := broker.StopInstances(t.Context(), result.InstanceID); errs[0] != nil {
		t.Error(errs[0])
	}
	if n := len(s.libvirt.domains); n != 0 {
		t.Errorf("%d domains are left", n)
	}
}

// What a machine was made with is told each time alike, its interfaces by their parents.
func TestInterfacesAreOnTheirParents(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	p := params("0/kvm/0")
	p.Interfaces = []facade.NetworkInterface{
		{Name: "eth0"},
		{Name: "eth1", Parent: "virbr0", MAC: "52:54:00:AA:BB:CC"},
		{Name: "eth2", Parent: "default"},
		{Name: "eth3", Parent: "br0", MTU: 1400, Addresses: []string{"198.51.100.5/24"}, Gateway: "198.51.100.1", DNS: []string{"198.51.100.53"}},
	}
	result, err := broker.StartInstance(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := broker.StartInstance(t.Context(), p)
	if diff := cmp.Diff(result, again); diff != "" || err != nil {
		t.Errorf("the second start: %v\n%s", err, diff)
	}
	var got []string
	for _, i := range result.Interfaces {
		got = append(got, i.Name+" "+i.Parent)
	}
	if want := []string{"eth0 virbr0", "eth1 virbr0", "eth2 virbr0", "eth3 br0"}; !slices.Equal(got, want) {
		t.Errorf("interfaces are %q, want %q", got, want)
	}
	last := result.Interfaces[3]
	if result.Interfaces[1].MAC != "52:54:00:aa:bb:cc" || last.MTU != 1400 || last.Gateway != "198.51.100.1" || !slices.Equal(last.Addresses, p.Interfaces[3].Addresses) {
		t.Errorf("interfaces are %+v", result.Interfaces)
	}
}

// The seed has what the guest is to be told, and only root can read it. Name servers of the
// host are told, but for those that only the host reaches.
func TestSeedTellsUserDataAndNetwork(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	p := params("0/kvm/0")
	p.Interfaces = []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"10.5.0.2/24"}, Gateway: "10.5.0.1"}}
	result, err := broker.StartInstance(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.config.StateDir, "images", string(result.InstanceID)+"-seed.iso")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"canary-of-the-user-data", "10.5.0.2/24", "via: 10.5.0.1", "192.0.2.53", result.Interfaces[0].MAC, "instance-id: " + string(result.InstanceID)} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the seed lacks %q", want)
		}
	}
	if strings.Contains(string(data), "127.0.0.53") {
		t.Error("the guest is told of a name server that only the host reaches")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the seed: %v, %v", info.Mode(), err)
	}
	for _, d := range s.libvirt.domains {
		if strings.Contains(d.xml, "canary") {
			t.Error("the user data is in the domain")
		}
	}
}

// A container may name an image of its own.
func TestImageOfAContainer(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	image := s.config.Images["ubuntu/22.04"]
	s.config.Images = nil
	broker := s.broker()
	p := params("0/kvm/0")
	if _, err := broker.StartInstance(t.Context(), p); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), `"ubuntu/22.04"`) {
		t.Errorf("without an image: %v", err)
	}
	p.Info.Attributes = map[string]string{"image": image.URL, "image-sha256": image.SHA256}
	if _, err := broker.StartInstance(t.Context(), p); err != nil {
		t.Error(err)
	}
}

// With networks of the provider's, a machine has what is asked for and nothing else.
func TestProvidersNetworking(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.config.Network.Networking = kvm.Provider
	broker := s.broker()
	if s.libvirt.networks["default"].Active {
		t.Error("a network was started")
	}
	result, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
	if err != nil || len(result.Interfaces) != 0 {
		t.Errorf("got %+v, %v", result, err)
	}
	p := params("0/kvm/1")
	p.Interfaces = []facade.NetworkInterface{{Name: "eth0"}}
	if _, err := broker.StartInstance(t.Context(), p); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), `"eth0"`) {
		t.Errorf("without a parent: %v", err)
	}
}

// A bridge of the host's may be what machines are on.
func TestBridgeInsteadOfANetwork(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.config.Network.Bridge = "br0"
	result, err := s.broker().StartInstance(t.Context(), params("0/kvm/0"))
	if err != nil || len(result.Interfaces) != 1 || result.Interfaces[0].Parent != "br0" || s.libvirt.networks["default"].Active {
		t.Errorf("got %+v, %v", result, err)
	}
	s.config.Network.Bridge = "br7"
	if err := s.initialiser().Initialise(t.Context()); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), `"br7"`) {
		t.Errorf("one that is not there: %v", err)
	}
}

// notInstalled and onlyBase are what a machine without libvirt answers.
func notInstalled(_ context.Context, cmd host.Command) (host.Output, error) {
	return host.Output{}, errors.NotFoundf("program %q", cmd.Args[0])
}

func onlyBase(context.Context, host.Command) (host.Output, error) {
	return host.Output{Stdout: []byte("ii  base 1\n")}, nil
}

// bare has nothing be installed.
func (s *scripted) bare() {
	s.libvirt.away = true
	for _, program := range []string{"qemu-img", "libvirtd", "qemu-system-x86_64"} {
		s.machine.script.On(notInstalled, program, "--version")
	}
	s.machine.script.On(onlyBase, "dpkg-query")
	s.machine.script.On(hosttest.Print(""), "dpkg", "--audit")
}

func TestLibvirtIsInstalledWhereThereIsNone(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.bare()
	var mu sync.Mutex
	installed := false
	s.machine.script.On(func(context.Context, host.Command) (host.Output, error) {
		mu.Lock()
		defer mu.Unlock()
		text := "ii  base 1\n"
		if installed {
			text += "ii  libvirt-daemon-system 9\nii  qemu-system-x86 7\nii  qemu-utils 7\nii  libvirt0 9\n"
		}
		return host.Output{Stdout: []byte(text)}, nil
	}, "dpkg-query")
	var removed, wanted []string
	s.machine.script.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		removed = append(removed, cmd.Args[slices.Index(cmd.Args, "--purge")+1:]...)
		installed = false
		return host.Output{}, nil
	}, "dpkg")
	s.machine.script.On(hosttest.Print(""), "dpkg", "--audit")
	s.machine.script.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		mu.Lock()
		defer mu.Unlock()
		installed, wanted = true, cmd.Args
		for _, program := range []string{"qemu-img", "libvirtd", "qemu-system-x86_64"} {
			s.machine.script.On(hosttest.Print("7.2\n"), program, "--version")
		}
		s.libvirt.mu.Lock()
		s.libvirt.away = false
		s.libvirt.mu.Unlock()
		return host.Output{}, nil
	}, "apt-get")

	plan, err := s.initialiser().Plan(t.Context())
	if err != nil || len(plan) != 8 || plan[0].What != "install libvirt-daemon-system, qemu-system-x86, qemu-utils" || installed {
		t.Fatalf("the plan is %v, %v", plan, err)
	}
	if err := s.initialiser().Probe(t.Context()); !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), "install libvirt") {
		t.Errorf("the probe says %v", err)
	}
	broker := s.broker()
	if !slices.Contains(wanted, "libvirt-daemon-system") || !slices.Contains(wanted, "qemu-utils") {
		t.Errorf("installed by %q", wanted)
	}
	result, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(s.config.StateDir, "kvm-host.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record: %v, %v", info, err)
	}
	if info, err := os.Stat(s.config.StateDir); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the hypervisor does not get through the state folder: %v, %v", info, err)
	}
	broker.StopInstances(t.Context(), result.InstanceID)
	if err := s.initialiser().Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"libvirt-daemon-system", "libvirt0", "qemu-system-x86", "qemu-utils"}; !slices.Equal(removed, want) {
		t.Errorf("removed were %q, want %q", removed, want)
	}
}

// H9: unattended upgrades hold the lock for minutes.
func TestInstallationWaitsForALockAndNamesItsHolder(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.bare()
	s.machine.script.HoldLock("/var/lib/dpkg/lock-frontend", &host.Process{PID: 42, Name: "unattended-upgr"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.initialiser().Initialise(ctx)
	if !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "unattended-upgr (process 42)") {
		t.Errorf("got %v", err)
	}
}

func TestWhatComesFromNowhereIsNamed(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.bare()
	s.machine.script.SetFile("/etc/os-release", "ID=fedora\n")
	if err := s.initialiser().Initialise(t.Context()); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "libvirt, QEMU and qemu-img") {
		t.Errorf("got %v", err)
	}
}

// H14: nothing is installed where nothing could run, and it is said each time alike.
func TestHostWithoutAccelerationIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.bare()
	s.config.AllowEmulation = false
	before := s.state()
	for range 2 {
		err := s.initialiser().Initialise(t.Context())
		if !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "/dev/kvm") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v", err)
		}
	}
	if diff := cmp.Diff(before, s.state()); diff != "" {
		t.Errorf("something was done:\n%s", diff)
	}
	// There is one, and libvirt may not use it.
	s.machine.script.SetFile("/dev/kvm", "")
	s.libvirt.away = false
	s.machine.script.On(hosttest.Print("7.2\n"), "qemu-img", "--version")
	s.machine.script.On(hosttest.Print("7.2\n"), "qemu-system-x86_64", "--version")
	if err := s.initialiser().Initialise(t.Context()); !errors.Is(err, errors.NotSupported) || !strings.Contains(err.Error(), "libvirt cannot use /dev/kvm") {
		t.Errorf("got %v", err)
	}
	s.libvirt.types = []string{"qemu", "kvm"}
	broker := s.broker()
	if _, err := broker.StartInstance(t.Context(), params("0/kvm/0")); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.libvirt.domains {
		if !strings.Contains(d.xml, `type="kvm"`) {
			t.Errorf("the domain is not accelerated:\n%s", d.xml)
		}
	}
}

// H10: no socket, and no end of waiting.
func TestDaemonThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.libvirt.away = true
	s.config.ReadyTimeout = 20 * time.Millisecond
	if err := s.initialiser().Initialise(t.Context()); !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "waiting for libvirt") {
		t.Errorf("got %v", err)
	}
	if _, err := kvm.NewBroker(t.Context(), s.config, nil); !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), "/nowhere/libvirt-sock") {
		t.Errorf("a broker: %v", err)
	}
	s.config.ReadyTimeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.initialiser().Initialise(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Two agents of two models may have one pool.
func TestPoolOfTheNameIsUsedWhereItIs(t *testing.T) {
	t.Parallel()
	one := newScripted(t)
	other := newScripted(t)
	other.libvirt = one.libvirt
	other.config = other.connected(other.config)
	a, b := one.broker(), other.broker()
	for _, broker := range []*kvm.Broker{a, b} {
		if _, err := broker.StartInstance(t.Context(), params("0/kvm/0")); err != nil {
			t.Fatal(err)
		}
		if list, err := broker.AllInstances(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("listed are %v, %v", list, err)
		}
	}
	if n := len(one.libvirt.pools); n != 1 {
		t.Errorf("%d pools", n)
	}
	list, _ := a.AllInstances(t.Context())
	if errs := b.StopInstances(t.Context(), list[0].ID); !errors.Is(errs[0], errors.Forbidden) {
		t.Errorf("another model's machine: %v", errs[0])
	}
	a.StopInstances(t.Context(), list[0].ID)
	if err := one.initialiser().Undo(t.Context()); !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), "still used by juju-") {
		t.Errorf("undone under a machine: %v", err)
	}
	// One that is to be elsewhere is another one.
	other.config.Pool.Dir = "/srv/images"
	if err := other.initialiser().Initialise(t.Context()); !errors.Is(err, errors.AlreadyExists) || !strings.Contains(err.Error(), "/srv/images") {
		t.Errorf("a pool elsewhere: %v", err)
	}
}

func TestUndoLeavesWhatWasThereBefore(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.libvirt.networks["default"] = virt.Network{Name: "default", Bridge: "virbr0", Active: true, Persistent: true, Autostart: true}
	dir := t.TempDir()
	s.libvirt.pools["sutler"] = virt.Pool{Name: "sutler", UUID: "x", Type: "dir", Path: dir, Persistent: true, Autostart: true}
	before := s.state()
	i := s.initialiser()
	if plan, err := i.Plan(t.Context()); err != nil || len(plan) != 1 || plan[0].What != "start the storage pool sutler" {
		t.Errorf("the plan is %v, %v", plan, err)
	}
	if err := i.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := i.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, s.state()); diff != "" {
		t.Errorf("it is otherwise than before:\n%s", diff)
	}
}

func TestUndoLeavesAFolderWithSomethingElseInIt(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.broker()
	other := filepath.Join(s.config.StateDir, "images", "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.initialiser().Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// Somebody has removed libvirt as a whole.
func TestUndoWithoutLibvirt(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.broker()
	s.libvirt.away = true
	if err := s.initialiser().Undo(t.Context()); !errors.Is(err, errors.NotYetAvailable) {
		t.Errorf("it is installed and does not answer: %v", err)
	}
	s.bare()
	if err := s.initialiser().Undo(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.config.StateDir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRecordThatCannotBeReadStopsBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	for content, kind := range map[string]error{"{": errors.NotValid, `{"version":2,"id":"x"}`: errors.NotSupported, `{}`: errors.NotValid} {
		s := newScripted(t)
		if err := s.machine.WriteFile(t.Context(), filepath.Join(s.config.StateDir, "kvm-host.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		before := s.state()
		for what, err := range map[string]error{
			"Initialise": s.initialiser().Initialise(t.Context()), "Undo": s.initialiser().Undo(t.Context()),
		} {
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), "kvm-host.json") {
				t.Errorf("%s with %q: %v", what, content, err)
			}
		}
		if diff := cmp.Diff(before, s.state()); diff != "" {
			t.Errorf("something was done:\n%s", diff)
		}
	}
}

// Whatever of an instance is missing, it is finished or made anew.
func TestRemainsAreFinishedOrReplaced(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(s *scripted, path string){
		"a disk without a domain": func(s *scripted, _ string) { clear(s.libvirt.domains) },
		"a domain without a disk": func(_ *scripted, path string) { _ = os.Remove(path + ".qcow2") },
		"a domain without a seed, switched off": func(s *scripted, path string) {
			_ = os.Remove(path + "-seed.iso")
			for _, d := range s.libvirt.domains {
				d.ID, d.State = 0, virt.StateShutoff
			}
		},
		"one that is switched off and does not start with the host": func(s *scripted, _ string) {
			for _, d := range s.libvirt.domains {
				d.ID, d.State, d.Autostart = 0, virt.StateShutoff, false
			}
		},
	} {
		s := newScripted(t)
		broker := s.broker()
		first, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(s.config.StateDir, "images", string(first.InstanceID))
		damage(s, path)
		if list, err := broker.AllInstances(t.Context()); err != nil || len(list) != 1 || list[0].ContainerID != "0/kvm/0" {
			t.Errorf("%s: listed as %+v, %v", name, list, err)
		}
		again, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
		for _, d := range s.libvirt.domains {
			if !d.Active() || !d.Autostart {
				t.Errorf("%s: %+v", name, d.Domain)
			}
		}
		damage(s, path)
		if errs := broker.StopInstances(t.Context(), first.InstanceID); errs[0] != nil {
			t.Errorf("%s: %v", name, errs[0])
		}
		if left, _ := filepath.Glob(path + "*"); len(left) > 0 || len(s.libvirt.domains) > 0 {
			t.Errorf("%s: left are %v and %d domains", name, left, len(s.libvirt.domains))
		}
	}
}

// One that somebody has paused is left so, and told.
func TestPausedMachineIsNotTakenForARunningOne(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	if _, err := broker.StartInstance(t.Context(), params("0/kvm/0")); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.libvirt.domains {
		d.State = virt.StatePaused
	}
	if list, err := broker.AllInstances(t.Context()); err != nil || len(list) != 1 || list[0].Running || list[0].Status != "paused" {
		t.Errorf("listed as %+v, %v", list, err)
	}
	if _, err := broker.StartInstance(t.Context(), params("0/kvm/0")); !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "paused") {
		t.Errorf("got %v", err)
	}
}

// The next daemon takes one whose start was cut short for paused, until it knows better.
func TestMachineWhoseStartWasCutShortIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	looks, cut := 0, false
	s.hook.set(func(name string, _ bool, do func() error) error {
		err := do()
		s.libvirt.mu.Lock()
		defer s.libvirt.mu.Unlock()
		switch {
		case name == "StartDomain" && !cut:
			cut = true
			for _, d := range s.libvirt.domains {
				d.State = virt.StatePaused
			}
			return errors.WithType(errors.WithType(errors.New("lost"), virt.ErrNoReply), errors.NotYetAvailable)
		case name == "Domain" && cut:
			if looks++; looks == 4 {
				for _, d := range s.libvirt.domains {
					d.ID, d.State = 0, virt.StateShutoff
				}
			}
		}
		return err
	})
	if _, err := broker.StartInstance(t.Context(), params("0/kvm/0")); err != nil {
		t.Fatal(err)
	}
	for _, d := range s.libvirt.domains {
		if d.State != virt.StateRunning || s.libvirt.starts != 2 {
			t.Errorf("it is %v after %d starts", d.State, s.libvirt.starts)
		}
	}
}

// A start that libvirt refuses leaves nothing, and neither does a file system without room.
func TestRefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	for _, call := range []string{"DefineDomain", "SetDomainAutostart", "StartDomain", "qemu-img"} {
		before := slices.Sorted(slices.Values(strings.Fields(s.state())))
		s.hook.set(func(name string, _ bool, do func() error) error {
			if name == call {
				return refusal(1, "no luck")
			}
			return do()
		})
		_, err := broker.StartInstance(t.Context(), params("0/kvm/0"))
		s.hook.set(nil)
		if err == nil || !strings.Contains(err.Error(), "no luck") {
			t.Errorf("%s refused: %v", call, err)
		}
		after := slices.DeleteFunc(slices.Sorted(slices.Values(strings.Fields(s.state()))), func(word string) bool {
			return strings.Contains(word, "base-") || strings.Contains(word, ".lock")
		})
		before = slices.DeleteFunc(before, func(word string) bool { return strings.Contains(word, "base-") || strings.Contains(word, ".lock") })
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s refused left something:\n%s", call, diff)
		}
	}
}
