package host_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A lock that belongs to an open file, not to a process, is one without a name; so is that
// of a process in another container.
func TestAHolderWithoutANumber(t *testing.T) {
	name := at(t, "", t.TempDir(), "lock")
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	p, err := machine().LockHolder(t.Context(), name)
	if err != nil || p == nil || p.PID != 0 || p.String() != "a process that cannot be seen from here" {
		t.Fatal(p, err)
	}
}
