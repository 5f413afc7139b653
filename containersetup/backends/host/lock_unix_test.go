//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

func TestTheHolderOfALockIsSeen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	look := func() *host.Process {
		t.Helper()
		p, err := machine().LockHolder(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := look(); p != nil {
		t.Fatalf("there is no file, and %s holds it", p)
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Fatal("looking made a file")
	}
	at(t, "", name)
	if p := look(); p != nil {
		t.Fatal(p)
	}
	holder := start(t, lockRole, name)
	for range 3 { // looking takes nothing away
		p := look()
		if p == nil || p.PID != holder.Process.Pid {
			t.Fatal(p)
		}
		if runtime.GOOS == "linux" && p.Name == "" {
			t.Fatal("it has no name")
		}
	}
	_ = holder.stdin.Close()
	_ = holder.Wait()
	if p := look(); p != nil {
		t.Fatal(p)
	}
}

// Who may not write a lock's file may still look.
func TestLookingAtALockNeedsNoRightToWrite(t *testing.T) {
	name := at(t, "", t.TempDir(), "lock")
	holder := start(t, lockRole, name)
	if err := os.Chmod(name, 0o400); err != nil {
		t.Fatal(err)
	}
	if p, err := machine().LockHolder(t.Context(), name); err != nil || p == nil || p.PID != holder.Process.Pid {
		t.Fatal(p, err)
	}
}

// A pipe without another end would hold up whoever opens it.
func TestLookingAtAPipeDoesNotWait(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := machine().LockHolder(t.Context(), name); p != nil {
		t.Fatal(p, err)
	}
}
