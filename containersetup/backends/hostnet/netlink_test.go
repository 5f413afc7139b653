package hostnet

import (
	"testing"
)

func TestADeviceIsBridgedByNetlink(t *testing.T) {
	w := newWorld(t)
	w.static(t, "eth0", "1", true)
	w.far(t)
	snapshot := w.Host.Snapshot(t)
	before := w.state(t)
	all := []string{"10.1.0.1", "fd00:1::1", "192.0.2.9", "fd00:ff::9"}
	w.Host.MustReach(t, all...)
	w.mustBridge(t, "eth0")
	w.wantMoved(t, before, "eth0")
	w.wantClean(t)
	w.Host.MustReach(t, all...)
	w.Neighbour.MustReach(t, "10.1.0.5", "fd00:1::5")
	_ = snapshot
	// Again is success, and nothing.
	n := len(w.changes())
	w.mustBridge(t, "eth0")
	if got := w.changes(); len(got) != n {
		t.Errorf("did %v", got[n:])
	}
}
