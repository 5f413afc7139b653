package lxd_test

import (
	"context"
	"fmt"
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
	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

const fingerprint = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// scripted is a machine in memory whose LXD is in memory, too.
type scripted struct {
	*testing.T
	host   *hosttest.Host
	daemon *lxdfake.Fake
	config lxd.Config
}

func newScripted(t *testing.T) *scripted {
	t.Helper()
	s := &scripted{T: t, host: newHost(), daemon: lxdfake.New(t)}
	s.daemon.AddImage("ubuntu/22.04", fingerprint)
	s.config = lxd.Config{
		ModelUUID: lxdtest.Model(), ControllerUUID: controllerUUID, StateDir: "/var/lib/agent/lxd",
		Host: s.host, Socket: s.daemon.Socket(), StopTimeout: time.Second, ReadyTimeout: 10 * time.Second,
	}
	return s
}

// newHost is a Debian machine with one address and a default route.
func newHost() *hosttest.Host {
	h := &hosttest.Host{}
	h.SetFile("/etc/os-release", "ID=debian\n")
	h.SetFile("/etc/machine-id", "0123\n")
	h.SetFile("/etc/resolv.conf", "nameserver 127.0.0.53\nnameserver 192.0.2.53\n")
	h.On(hosttest.Print("5.0.2\n"), "lxd", "--version")
	h.On(hosttest.Print(`[{"ifname":"eth0","addr_info":[{"local":"10.1.2.3","prefixlen":24}]}]`), "ip", "-json", "address")
	h.On(hosttest.Print(`[]`), "ip", "-json", "link")
	h.On(hosttest.Print(`[{"link_type":"ether","address":"02:00:00:00:00:01"}]`), "ip", "-json", "-details", "link")
	h.On(hosttest.Print(`[{"dst":"default"},{"dst":"10.1.2.0/24"},{"dst":"10.128.0.0/9"}]`), "ip", "-json", "-4", "route")
	h.On(hosttest.Print(``), "ip", "-json", "-6", "route")
	h.On(hosttest.Exit(1, "No such file or directory"), "nft", "list", "table", "inet", "lxd")
	return h
}

// notInstalled and onlyBase are what a machine without LXD answers.
func notInstalled(_ context.Context, cmd host.Command) (host.Output, error) {
	return host.Output{}, errors.NotFoundf("program %q", cmd.Args[0])
}

func onlyBase(context.Context, host.Command) (host.Output, error) {
	return host.Output{Stdout: []byte("ii  base 1\n")}, nil
}

func (s *scripted) initialiser() *lxd.Initialiser {
	s.Helper()
	i, err := lxd.NewInitialiser(s.config)
	if err != nil {
		s.Fatal(err)
	}
	return i
}

func (s *scripted) broker() *lxd.Broker {
	s.Helper()
	if err := s.initialiser().Initialise(s.Context()); err != nil {
		s.Fatal(err)
	}
	b, err := lxd.NewBroker(s.Context(), s.config, nil)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

func ubuntu(id string) container.StartParams {
	return container.StartParams{
		ContainerID: id,
		Info: facade.ContainerProvisioningInfo{
			Base: facade.Base{Name: "ubuntu", Channel: "22.04/stable"}, UserData: facade.NewSecret("#cloud-config\n# canary\n"),
		},
	}
}

// state is all that the daemon has, but for the record's mark.
func (s *scripted) state() string {
	return fmt.Sprint(s.daemon.Pools(), s.daemon.Networks(), s.daemon.Profile("default"), s.daemon.ServerConfig(), s.daemon.Instances())
}

func TestPreparationIsFinishedAfterACrashAtEveryChange(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := newScripted(t)
		s.config.Proxy.HTTP = "http://proxy:3128"
		before := s.state()
		s.host.CrashAfter(n)
		err := s.initialiser().Initialise(t.Context())
		if err == nil {
			if n < 6 {
				t.Errorf("there were %d changes to files, want more", n)
			}
			return
		}
		s.host.CrashAfter(-1)
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

// TestEveryRequestMayFail has each request of a whole life refused, dropped, and lose its
// reply, in turn; calling again comes to the same end, and nothing is made twice.
func TestEveryRequestMayFail(t *testing.T) {
	t.Parallel()
	clean := newScripted(t)
	life(clean)
	all := len(clean.daemon.Requests())
	if all < 30 {
		t.Fatalf("a life has %d requests", all)
	}
	for _, fault := range []string{"refused", "dropped", "lost"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			for n := range all {
				s := newScripted(t)
				between := newProxy(t, s.daemon.Socket())
				s.config.Socket = between.path
				var count atomic.Int64
				var what atomic.Value
				strike := func(line string) bool {
					if count.Add(1) != int64(n+1) {
						return true
					}
					what.Store(line)
					if fault == "refused" {
						f := strings.Fields(line)
						path, _, _ := strings.Cut(f[1], "?")
						s.daemon.Fail(f[0], path, 500, "no luck", 1)
						return true
					}
					return false
				}
				if fault == "lost" {
					between.hook(nil, strike)
				} else {
					between.hook(strike, nil)
				}
				life(s)
				if t.Failed() {
					t.Fatalf("when request %d, %v, is %s", n+1, what.Load(), fault)
				}
			}
		})
	}
}

// life prepares the host, starts two containers, stops one, and goes on until it has
// come about, as the workers do.
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
	again("preparing", func() error { return s.initialiser().Initialise(ctx) })
	var broker *lxd.Broker
	again("connecting", func() (err error) {
		broker, err = lxd.NewBroker(ctx, s.config, nil)
		return err
	})
	var first container.StartResult
	again("starting", func() (err error) {
		first, err = broker.StartInstance(ctx, ubuntu("0/lxd/0"))
		return err
	})
	again("starting another", func() error {
		_, err := broker.StartInstance(ctx, ubuntu("0/lxd/1"))
		return err
	})
	again("stopping", func() error { return broker.StopInstances(ctx, first.InstanceID)[0] })
	var left []container.Instance
	again("listing", func() (err error) {
		left, err = broker.AllInstances(ctx)
		return err
	})
	if len(left) != 1 || left[0].ContainerID != "0/lxd/1" || !left[0].Running {
		s.Errorf("left are %+v", left)
	}
	if n := len(s.daemon.Instances()); n != 1 {
		s.Errorf("LXD has %d instances", n)
	}
	if n, pools := len(s.daemon.Networks()), len(s.daemon.Pools()); n != 2 || pools != 1 {
		s.Errorf("LXD has %d networks, %d pools", n, pools)
	}
	s.config.Socket = s.daemon.Socket() // nothing fails any more
	if plan, err := s.initialiser().Plan(ctx); err != nil || len(plan) > 0 {
		s.Errorf("still to do: %v, %v", plan, err)
	}
}

func TestImagesAreFetchedOnceAndOneAtATime(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.daemon.AddRemoteImage("debian/12", strings.Repeat("a", 64))
	broker := s.broker()
	var wg sync.WaitGroup
	for n := range 6 {
		wg.Go(func() {
			p := ubuntu(fmt.Sprintf("0/lxd/%d", n))
			p.Info.Base = facade.Base{Name: "debian", Channel: "12"}
			if _, err := broker.StartInstance(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.daemon.Downloads(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
	if n := len(s.daemon.Instances()); n != 6 {
		t.Errorf("%d instances", n)
	}
	p := ubuntu("0/lxd/9")
	p.Info.Base = facade.Base{Name: "debian", Channel: "99"}
	_, err := broker.StartInstance(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "debian/99") || !strings.Contains(err.Error(), "https://images.lxd.canonical.com") {
		t.Errorf("an image that is not there: %v", err)
	}
}

func TestWaitingForAnImageIsCancelled(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.daemon.AddRemoteImage("debian/12", strings.Repeat("a", 64))
	broker := s.broker()
	release := s.daemon.HangOperation("POST", "/1.0/images")
	defer release()
	p := ubuntu("0/lxd/0")
	p.Info.Base = facade.Base{Name: "debian", Channel: "12"}
	errs := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 2 {
		p := p
		p.ContainerID = fmt.Sprintf("0/lxd/%d", n)
		go func() {
			_, err := broker.StartInstance(ctx, p)
			errs <- err
		}()
	}
	lxdtest.Eventually(t, "a fetch", func() bool { return s.daemon.Count("POST", "/1.0/images") == 1 })
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestStubbornContainerIsSwitchedOff(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	result, err := broker.StartInstance(t.Context(), ubuntu("0/lxd/0"))
	if err != nil {
		t.Fatal(err)
	}
	s.daemon.SetStubborn(string(result.InstanceID))
	if errs := broker.StopInstances(t.Context(), result.InstanceID); errs[0] != nil {
		t.Error(errs[0])
	}
	if n := len(s.daemon.Instances()); n != 0 {
		t.Errorf("%d instances are left", n)
	}
}

func TestNameServersOfTheHostButThoseOnItself(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	broker := s.broker()
	p := ubuntu("0/lxd/0")
	p.Interfaces = []facade.NetworkInterface{{Name: "eth0", Addresses: []string{"10.5.0.2/24"}, Gateway: "10.5.0.1"}, {Name: "eth1"}}
	result, err := broker.StartInstance(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	config := s.daemon.Instances()[0].Config["user.network-config"]
	if !strings.Contains(config, "192.0.2.53") || strings.Contains(config, "127.0.0.53") {
		t.Errorf("cloud-init is told\n%s", config)
	}
	if got := result.Interfaces[0]; !slices.Equal(got.DNS, []string{"192.0.2.53"}) || got.Gateway != "10.5.0.1" {
		t.Errorf("the result is %+v", got)
	}
}

// H18, github.com/juju/juju/issues/8902: the broker was connected before LXD was there.
func TestLXDIsInstalledWhereThereIsNone(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.daemon.Stop()
	installed := false
	packages := func() string {
		if installed {
			return "ii  base 1\nii  lxd 5.0.2\nii  lxcfs 1\n"
		}
		return "ii  base 1\n"
	}
	s.host.On(notInstalled, "lxd", "--version")
	s.host.On(func(context.Context, host.Command) (host.Output, error) {
		return host.Output{Stdout: []byte(packages())}, nil
	}, "dpkg-query")
	var removed []string
	s.host.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		removed = append(removed, cmd.Args[slices.Index(cmd.Args, "--purge")+1:]...)
		installed = false
		return host.Output{}, nil
	}, "dpkg")
	s.host.On(hosttest.Print(""), "dpkg", "--audit")
	s.host.On(func(_ context.Context, cmd host.Command) (host.Output, error) {
		installed = true
		s.daemon.Restart()
		return host.Output{}, nil
	}, "apt-get")

	plan, err := s.initialiser().Plan(t.Context())
	if err != nil || len(plan) != 6 || plan[0].What != "install LXD" || installed {
		t.Fatalf("the plan is %v, %v", plan, err)
	}
	broker := s.broker()
	if _, err := broker.StartInstance(t.Context(), ubuntu("0/lxd/0")); err != nil {
		t.Fatal(err)
	}
	if mode := s.host.Mode("/var/lib/agent/lxd/lxd-host.json"); mode != 0o600 {
		t.Errorf("the record has permissions %#o", mode)
	}
	instances, _ := broker.AllInstances(t.Context())
	broker.StopInstances(t.Context(), instances[0].ID)
	if err := s.initialiser().Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(removed, []string{"lxcfs", "lxd"}) {
		t.Errorf("removed were %q", removed)
	}
}

// H9: unattended upgrades hold the lock for minutes.
func TestInstallationWaitsForALockAndNamesItsHolder(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.daemon.Stop()
	s.host.On(notInstalled, "lxd", "--version")
	s.host.On(onlyBase, "dpkg-query")
	s.host.On(hosttest.Print(""), "dpkg", "--audit")
	s.host.HoldLock("/var/lib/dpkg/lock-frontend", &host.Process{PID: 42, Name: "unattended-upgr"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := s.initialiser().Initialise(ctx)
	if !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "unattended-upgr (process 42)") {
		t.Errorf("got %v", err)
	}
	if plan, err := s.initialiser().Plan(t.Context()); err != nil || plan[0].What != "install LXD" {
		t.Errorf("then the plan is %v, %v", plan, err)
	}
}

// H10, github.com/canonical/lxd/issues/4265: no socket, and no end of waiting.
func TestDaemonThatDoesNotComeIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.daemon.Stop()
	s.config.ReadyTimeout = 20 * time.Millisecond
	if err := s.initialiser().Initialise(t.Context()); !errors.Is(err, errors.Timeout) || !strings.Contains(err.Error(), "waiting for LXD") {
		t.Errorf("got %v", err)
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

func TestUndoLeavesWhatSomebodyHasChangedSince(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.config.Proxy.HTTP = "http://proxy:3128"
	i := s.initialiser()
	if err := i.Initialise(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.daemon.SetServerConfig("core.proxy_http", "http://other:3128")
	profile := s.daemon.Profile("default")
	profile.Devices["eth0"]["mtu"] = "1400"
	s.daemon.SetProfile(profile)
	err := i.Undo(t.Context())
	if got := s.daemon.ServerConfig()["core.proxy_http"]; got != "http://other:3128" {
		t.Errorf("the proxy is %q", got)
	}
	if got := s.daemon.Profile("default").Devices["eth0"]; got["mtu"] != "1400" {
		t.Errorf("the device is %v", got)
	}
	// So the bridge is still used, and not by us.
	if !errors.Is(err, errors.NotYetAvailable) || !strings.Contains(err.Error(), "bridge lxdbr0 is still used by profile default") {
		t.Errorf("what stops it: %v", err)
	}
}

func TestRecordThatCannotBeReadStopsBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	for content, kind := range map[string]error{"{": errors.NotValid, `{"version":2,"id":"x"}`: errors.NotSupported, `{}`: errors.NotValid} {
		s := newScripted(t)
		s.host.SetFile("/var/lib/agent/lxd/lxd-host.json", content)
		before := s.state()
		for what, err := range map[string]error{
			"Initialise": s.initialiser().Initialise(t.Context()), "Undo": s.initialiser().Undo(t.Context()),
		} {
			if !errors.Is(err, kind) || !strings.Contains(err.Error(), "lxd-host.json") {
				t.Errorf("%s with %q: %v", what, content, err)
			}
		}
		if diff := cmp.Diff(before, s.state()); diff != "" {
			t.Errorf("something was done:\n%s", diff)
		}
	}
}
