package hostprep_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/hostprep"
	"github.com/sutler-dev/sutler/containersetup/machinelock"
)

var hostLock = container.Holder{Worker: "unattended upgrades", Reason: "upgrade"}

// H5 with the lock that ships: two agents' preparers, each with a Lock of its
// own on one file, as in two processes.
func TestPreparersOfTwoProcessesBridgeADeviceOnce(t *testing.T) {
	w := newWorld()
	path := filepath.Join(t.TempDir(), "machine-lock")
	var all sync.WaitGroup
	for _, kind := range []string{"lxd", "kvm"} {
		l, err := machinelock.New(machinelock.Config{Path: path, Clock: clock.WallClock, Poll: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		p := w.preparer(t, func(c *hostprep.Config) { c.Lock = l })
		for n := range 4 {
			all.Go(func() {
				if err := p.Prepare(t.Context(), fmt.Sprintf("0/%s/%d", kind, n)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if w.bridged != 1 || w.count(callAsk) != 8 {
		t.Errorf("bridged %d times after %d questions", w.bridged, w.count(callAsk))
	}
}
