package hostnet

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/kernel"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/nettest"
	"github.com/sutler-dev/sutler/facade"
)

const netplanFile = "/etc/netplan/50-cloud-init.yaml"

const netplanText = `# as the installer wrote it
network:
  version: 2
  ethernets:
    eth0:
      addresses: [10.1.0.5/24, "fd00:1::5/64"]
      routes:
        - to: default
          via: 10.1.0.1 # the neighbour
    wlan0:
      dhcp4: true
  wifis: {}
  x-secret: canary-8f31
`

// scripted is a bridger of a host in memory, whose netplan does with the kernel in memory
// what the files say of devices under bridges.
type scripted struct {
	*Bridger
	host   *hosttest.Host
	kernel *memory
	log    *logs
	dir    string
	// apply is what "netplan apply" does; by default all that it should.
	apply func() error
}

func newScripted(t *testing.T, change ...func(*BridgerConfig)) *scripted {
	t.Helper()
	s := &scripted{host: &hosttest.Host{}, kernel: &memory{s: zoo()}, log: &logs{}, dir: filepath.Join(t.TempDir(), "state")}
	s.host.SetFile(netplanFile, netplanText)
	s.host.SetFile("/proc/sys/kernel/random/boot_id", "boot-1\n")
	s.host.On(hosttest.Print(""), "netplan", "info")
	s.host.On(hosttest.Print(""), "netplan", "generate")
	s.host.On(func(context.Context, host.Command) (host.Output, error) {
		if s.apply != nil {
			return host.Output{}, s.apply()
		}
		return host.Output{}, s.applyFiles()
	}, "netplan", "apply")
	s.host.On(hosttest.Print("0\n"), "cat")
	config := BridgerConfig{
		Host: s.host, Clock: clock.WallClock, StateDir: s.dir,
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&config)
	}
	b, err := NewBridger(config)
	if err != nil {
		t.Fatal(err)
	}
	b.undoer.open = func(string) (kernel.Kernel, error) { return s.kernel, nil }
	s.Bridger = b
	return s
}

// applyFiles puts eth0 under br-eth0 when the file says so. It takes no bridge away, as
// the real one does not.
func (s *scripted) applyFiles() error {
	now, _ := s.kernel.Look(context.Background())
	eth0, _ := now.Link("eth0")
	if !strings.Contains(s.host.Files()[netplanFile], "br-eth0") || eth0.Master != "" {
		return nil
	}
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	for _, c := range bridgeChanges(now, bridging{Device: "eth0", Bridge: "br-eth0", MAC: mac0}) {
		if err := s.kernel.do(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *scripted) wantUntouched(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(sorted(zoo()), sorted(s.kernel.s)); diff != "" {
		t.Error(diff)
	}
	if got := s.host.Files()[netplanFile]; got != netplanText {
		t.Errorf("the file is now\n%s", got)
	}
	if j, err := s.store.begun(); j != nil || err != nil {
		t.Errorf("the journal is still there: %v", err)
	}
}

func eth0() []facade.DeviceToBridge { return []facade.DeviceToBridge{device("eth0")} }

func TestADeviceIsBridgedByNetplan(t *testing.T) {
	s := newScripted(t)
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Fatalf("%v\n%s", err, s.log)
	}
	want := []string{"write " + netplanFile, "run netplan generate", "run netplan apply"}
	if got := s.host.Changes(); !slices.Equal(got, want) {
		t.Errorf("did %q, want %q", got, want)
	}
	text := s.host.Files()[netplanFile]
	for _, part := range []string{"br-eth0:", "interfaces: [eth0]", mac0, "# the neighbour", "canary-8f31"} {
		if !strings.Contains(text, part) {
			t.Errorf("without %q:\n%s", part, text)
		}
	}
	// Again is success, and nothing.
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil || len(s.host.Changes()) != 3 {
		t.Errorf("%v, did %q", err, s.host.Changes())
	}
	// The kernel was told nothing beside it.
	if len(s.kernel.done) > 0 {
		t.Errorf("did %v", s.kernel.done)
	}
}

// A configuration that is so already, on a host that is not, is only applied.
func TestFilesThatAreRightAreApplied(t *testing.T) {
	s := newScripted(t)
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Fatal(err)
	}
	s.kernel.s = zoo()
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Fatal(err)
	}
	if got := s.host.Changes()[3:]; !slices.Equal(got, []string{"run netplan generate", "run netplan apply"}) {
		t.Errorf("did %q", got)
	}
}

func TestWhatNetplanRefusesIsPutBack(t *testing.T) {
	for _, test := range []struct{ tool, want string }{
		{"generate", "bridging eth0: netplan generate: netplan: Error in network definition (exit code 78)"},
		{"apply", "bridging eth0: netplan apply: netplan: Error in network definition (exit code 78)"},
	} {
		t.Run(test.tool, func(t *testing.T) {
			s := newScripted(t)
			failed := false
			s.host.On(func(ctx context.Context, cmd host.Command) (host.Output, error) {
				if !failed {
					failed = true
					if err := s.applyFiles(); err != nil {
						t.Error(err)
					}
					return hosttest.Exit(78, "Error in network definition")(ctx, cmd)
				}
				return host.Output{}, nil
			}, "netplan", test.tool)
			err := s.Bridge(t.Context(), eth0(), 0)
			if err == nil || err.Error() != "all was put back after: "+test.want {
				t.Errorf("got %v", err)
			}
			s.wantUntouched(t)
			changes := s.host.Changes()
			if got := changes[len(changes)-3:]; !slices.Equal(got, []string{"write " + netplanFile, "run netplan generate", "run netplan apply"}) {
				t.Errorf("did %q", changes)
			}
		})
	}
}

// Addresses from DHCP may take until the deadline, and no longer.
func TestNetplanIsGivenTime(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		works bool
	}{{29 * time.Second, true}, {31 * time.Second, false}} {
		t.Run(test.takes.String(), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := newScripted(t, func(c *BridgerConfig) { c.StateDir = filepath.Join(dir, "state") })
				s.apply = func() error {
					if !strings.Contains(s.host.Files()[netplanFile], "br-eth0") {
						return nil
					}
					time.AfterFunc(test.takes, func() { _ = s.applyFiles() })
					return nil
				}
				begun := time.Now()
				err := s.Bridge(t.Context(), eth0(), 0)
				took := time.Since(begun)
				if test.works {
					if err != nil || took < test.takes {
						t.Errorf("%v after %s", err, took)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), "afterwards there was no eth0 under br-eth0") || took < 30*time.Second || took > 31*time.Second {
					t.Errorf("%v after %s", err, took)
				}
				s.wantUntouched(t)
			})
		})
	}
}

func TestABondIsWaitedForByTheClock(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := newScripted(t, func(c *BridgerConfig) { c.StateDir, c.Way = filepath.Join(dir, "state"), Netlink })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if cancelled {
				time.AfterFunc(10*time.Second, cancel)
			}
			begun := time.Now()
			err := s.Bridge(ctx, []facade.DeviceToBridge{device("eth0"), device("bond0")}, 30*time.Second)
			took := time.Since(begun)
			if !cancelled && (err != nil || took != 30*time.Second) {
				t.Errorf("%v after %s", err, took)
			}
			if cancelled {
				if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "waiting for the bond") || took != 10*time.Second {
					t.Errorf("%v after %s", err, took)
				}
				s.wantUntouched(t)
			}
			// Without a bond nothing is waited for.
			begun = time.Now()
			if err := s.Bridge(t.Context(), []facade.DeviceToBridge{device("eth0.5")}, 30*time.Second); err != nil || time.Since(begun) != 0 {
				t.Errorf("%v after %s", err, time.Since(begun))
			}
		})
	}
}

func TestFilesOfNetplanThatDoNotParseChangeNothing(t *testing.T) {
	for _, text := range []string{"network: [", "network:\n  ethernets: 5\n", "\x00"} {
		s := newScripted(t)
		s.host.SetFile(netplanFile, text)
		err := s.Bridge(t.Context(), eth0(), 0)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), netplanFile) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v", text, err)
		}
		if got := s.host.Changes(); len(got) > 0 || len(s.kernel.done) > 0 {
			t.Errorf("did %q", got)
		}
	}
}

// Of files of the same name the later directory's counts, and all count in the order of
// their names.
func TestTheFilesThatNetplanReads(t *testing.T) {
	s := newScripted(t, func(c *BridgerConfig) { c.NetplanRoot = "/target" })
	for name, text := range map[string]string{
		"/target/lib/netplan/10-a.yaml": "lib a", "/target/etc/netplan/10-a.yaml": "etc a", "/target/etc/netplan/20-b.yaml": "etc b",
		"/target/run/netplan/20-b.yaml": "run b", "/target/lib/netplan/00-c.yaml": "lib c", "/target/etc/netplan/30-d.yaml.bak": "no",
	} {
		s.host.SetFile(name, text)
	}
	files, err := s.netplanFiles(t.Context())
	var got []string
	for _, f := range files {
		got = append(got, f.Name+"="+string(f.Data))
	}
	want := []string{"/target/lib/netplan/00-c.yaml=lib c", "/target/etc/netplan/10-a.yaml=etc a", "/target/run/netplan/20-b.yaml=run b"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTheWay(t *testing.T) {
	for _, test := range []struct {
		name string
		way  Way
		lay  func(*hosttest.Host)
		want string
	}{
		{"netplan has it", Auto, func(*hosttest.Host) {}, "run netplan apply"},
		{"netplan is not there", Auto, func(h *hosttest.Host) {
			h.On(func(context.Context, host.Command) (host.Output, error) {
				return host.Output{}, errors.NotFoundf("netplan")
			}, "netplan", "info")
		}, ""},
		{"netplan knows nothing of it", Auto, func(h *hosttest.Host) { h.SetFile(netplanFile, "network: {version: 2}\n") }, ""},
		{"told so", Netlink, func(*hosttest.Host) {}, ""},
		{"forced, and not there", Ifupdown, func(*hosttest.Host) {}, "not found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScripted(t, func(c *BridgerConfig) { c.Way = test.way })
			test.lay(s.host)
			err := s.Bridge(t.Context(), eth0(), 0)
			changes := s.host.Changes()
			switch {
			case test.want == "not found":
				if !errors.Is(err, errors.NotFound) || len(changes)+len(s.kernel.done) > 0 {
					t.Errorf("%v, did %q", err, changes)
				}
			case err != nil, test.want == "" && len(changes) > 0, test.want != "" && !slices.Contains(changes, test.want):
				t.Errorf("%v, did %q", err, changes)
			}
		})
	}
}

// The host crashes after every change that is made through the port; what was left is put
// back once it is up again. A kernel that was started since knows nothing of it.
func TestACrashOfTheHostAtEveryChangeIsPutBack(t *testing.T) {
	for _, rebooted := range []bool{false, true} {
		for n := range 4 {
			s := newScripted(t)
			s.host.CrashAfter(n)
			err := s.Bridge(t.Context(), eth0(), 0)
			if n == 3 {
				if err != nil {
					t.Errorf("without a crash: %v", err)
				}
				continue
			}
			if !errors.Is(err, hosttest.ErrCrashed) {
				t.Errorf("%d: got %v", n, err)
			}
			s.host.CrashAfter(-1)
			if rebooted {
				s.host.SetFile("/proc/sys/kernel/random/boot_id", "boot-2\n")
				s.kernel.s = zoo()
				s.kernel.s.Addresses = nil
				s.kernel.done = nil
			}
			if err := s.Recover(t.Context()); err != nil {
				t.Errorf("%d: %v", n, err)
			}
			if rebooted {
				if len(s.kernel.done) > 0 {
					t.Errorf("a new kernel was told %v", s.kernel.done)
				}
				s.kernel.s = zoo()
			}
			s.wantUntouched(t)
		}
	}
}

// What can never be put back does not keep the host from being bridged for ever.
func TestAnAttemptToPutBackIsNotMadeForEver(t *testing.T) {
	s := newScripted(t, func(c *BridgerConfig) { c.Way = Netlink })
	s.kernel.before = func(c kernel.Change) error {
		if c.Verb == kernel.AddRoute {
			return errBoom
		}
		return nil
	}
	for n := range maxAttempts {
		err := s.Bridge(t.Context(), eth0(), 0)
		if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "could not be put back: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: got %v", n, err)
		}
	}
	s.kernel.before = nil
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Error(err)
	}
}

func TestAJournalThatCannotBeReadIsNotIgnored(t *testing.T) {
	s := newScripted(t)
	if err := s.store.write(journalName, []byte("canary-8f31")); err != nil {
		t.Fatal(err)
	}
	err := s.Bridge(t.Context(), eth0(), 0)
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), s.dir) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

// Configuration has passwords: none is told, whatever fails.
func TestNoSecretIsTold(t *testing.T) {
	s := newScripted(t)
	var said []string
	for n := range 6 {
		s.host.CrashAfter(n)
		err := s.Bridge(t.Context(), eth0(), 0)
		s.host.CrashAfter(-1)
		said = append(said, errors.Details(err), errors.Details(s.Recover(t.Context())))
	}
	if text := strings.Join(said, "\n") + s.log.String(); strings.Contains(text, "canary-8f31") {
		t.Error(text)
	}
}

// The real netplan understands what is written.
func TestNetplanGeneratesFromWhatIsWritten(t *testing.T) {
	nettest.Need(t, "netplan")
	root := t.TempDir()
	file := filepath.Join(root, netplanFile)
	text := strings.ReplaceAll(netplanText, "  x-secret: canary-8f31\n", "")
	machine := host.New(host.Config{})
	if err := machine.WriteFile(t.Context(), file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	applied := false
	mixed := &mixedHost{Host: machine}
	s := newScripted(t, func(c *BridgerConfig) { c.Host, c.NetplanRoot = mixed, root })
	mixed.apply = func() error {
		applied = true
		now, _ := s.kernel.Look(t.Context())
		for _, c := range bridgeChanges(now, bridging{Device: "eth0", Bridge: "br-eth0", MAC: mac0}) {
			if err := s.kernel.Do(t.Context(), c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.Bridge(t.Context(), eth0(), 0); err != nil {
		t.Fatal(err)
	}
	if !applied {
		t.Error("it was not applied")
	}
	generated, err := filepath.Glob(filepath.Join(root, "run/systemd/network/*br-eth0.netdev"))
	if err != nil || len(generated) != 1 {
		t.Fatalf("generated %v, %v", generated, err)
	}
	if text := content(t, generated[0]); !strings.Contains(text, "Kind=bridge") || !strings.Contains(text, "MACAddress="+mac0) {
		t.Error(text)
	}
}

// mixedHost is the machine, but for "netplan apply", which takes systemd.
type mixedHost struct {
	host.Host
	apply func() error
}

func (m *mixedHost) Run(ctx context.Context, cmd host.Command) (host.Output, error) {
	if slices.Equal(cmd.Args, []string{"netplan", "apply"}) {
		return host.Output{}, m.apply()
	}
	return m.Host.Run(ctx, cmd)
}
