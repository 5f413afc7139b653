package hostprep_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/facade"
)

// The calls that a preparation makes, in their order.
const (
	callAcquire = "acquire"
	callAsk     = "ask"
	callBridge  = "bridge"
	callObserve = "observe"
	callPublish = "publish"
	callRelease = "release"
)

var allCalls = []string{callAcquire, callAsk, callBridge, callObserve, callPublish}

// world is a host with one device, its controller and its lock. The controller
// wants the device bridged until it is told that it is.
type world struct {
	mu        sync.Mutex
	calls     []string
	counts    map[string]int
	bridged   int // how often the device was put under its bridge
	published []facade.NetworkInterface
	lock      chan struct{} // holds one token while the lock is free
	reasons   []container.Holder

	// before and after are called around what a call does, outside of mu; an
	// error is the call's.
	before, after func(ctx context.Context, call string) error
	// changes and observed replace the answers.
	changes  *facade.HostChanges
	observed func() []facade.NetworkInterface
}

func newWorld() *world {
	w := &world{counts: map[string]int{}, lock: make(chan struct{}, 1)}
	w.lock <- struct{}{}
	return w
}

func (w *world) config() hostprep.Config {
	return hostprep.Config{
		Facade:    w,
		MachineID: "0",
		Lock:      lock{w},
		Network:   w,
		Bridger:   w,
		Clock:     clock.WallClock,
	}
}

func (w *world) preparer(t testing.TB, change ...func(*hostprep.Config)) *hostprep.Preparer {
	t.Helper()
	config := w.config()
	for _, f := range change {
		f(&config)
	}
	p, err := hostprep.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// call does what every call does.
func (w *world) call(ctx context.Context, name string, act func() error) error {
	w.mu.Lock()
	w.calls = append(w.calls, name)
	w.counts[name]++
	w.mu.Unlock()
	if w.before != nil {
		if err := w.before(ctx, name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	if w.after != nil {
		return w.after(ctx, name)
	}
	return nil
}

func (w *world) HostChangesForContainer(ctx context.Context, _ string) (changes facade.HostChanges, err error) {
	err = w.call(ctx, callAsk, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.changes != nil {
			changes = *w.changes
			return nil
		}
		if !slices.ContainsFunc(w.published, func(i facade.NetworkInterface) bool { return i.Name == "br-eth0" }) {
			changes.Devices = []facade.DeviceToBridge{{Device: "eth0", Bridge: "br-eth0"}}
		}
		return nil
	})
	return changes, err
}

func (w *world) Bridge(ctx context.Context, _ []facade.DeviceToBridge, _ time.Duration) error {
	return w.call(ctx, callBridge, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bridged++
		return nil
	})
}

func (w *world) Observe(ctx context.Context) (interfaces []facade.NetworkInterface, err error) {
	err = w.call(ctx, callObserve, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.observed != nil {
			interfaces = w.observed()
			return nil
		}
		interfaces = append(interfaces, facade.NetworkInterface{Index: 2, Name: "eth0"})
		if w.bridged > 0 {
			interfaces[0].Parent = "br-eth0"
			interfaces = append(interfaces, facade.NetworkInterface{Index: 3, Name: "br-eth0", Type: facade.BridgeInterface})
		}
		return nil
	})
	return interfaces, err
}

func (w *world) SetHostMachineNetworkConfig(ctx context.Context, machine string, interfaces []facade.NetworkInterface) error {
	return w.call(ctx, callPublish, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if machine != "0" {
			return fmt.Errorf("published for machine %q", machine)
		}
		w.published = interfaces
		return nil
	})
}

// lock is the world's machine lock.
type lock struct{ *world }

func (l lock) Acquire(ctx context.Context, holder container.Holder) (release func(), err error) {
	err = l.call(ctx, callAcquire, func() error {
		select {
		case <-l.lock:
		case <-ctx.Done():
			return ctx.Err()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reasons = append(l.reasons, holder)
		release = sync.OnceFunc(func() {
			l.mu.Lock()
			l.calls = append(l.calls, callRelease)
			l.mu.Unlock()
			l.lock <- struct{}{}
		})
		return nil
	})
	if err != nil && release != nil {
		release()
		release = nil
	}
	return release, err
}

func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, " ")
}

func (w *world) count(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[call]
}

// wantFree fails unless the lock is free.
func (w *world) wantFree(t testing.TB) {
	t.Helper()
	select {
	case <-w.lock:
		w.lock <- struct{}{}
	default:
		t.Errorf("the lock is not free after: %s", w.story())
	}
}

func (w *world) wantStory(t testing.TB, want string) {
	t.Helper()
	w.wantFree(t)
	if got := w.story(); got != want {
		t.Errorf("calls were: %s\n\twant: %s", got, want)
	}
}

// logTo returns a config change that logs to a buffer.
func logTo(b *safeBuffer) func(*hostprep.Config) {
	return func(c *hostprep.Config) { c.Logger = slog.New(slog.NewTextHandler(b, nil)) }
}

type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
