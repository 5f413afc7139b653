package socket

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
)

// dirs are two, one of which is too long for any unix address.
func dirs(t *testing.T) map[string]string {
	t.Helper()
	long := filepath.Join(t.TempDir(), strings.Repeat("long-", 24))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"short path": t.TempDir(), "long path": long}
}

func TestWhatIsSaidIsRead(t *testing.T) {
	for name, dir := range dirs(t) {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(t.Context(), dir, "a.sock")
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, "a.sock"))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("got %v, %v; want mode 0600", info, err)
			}
			said := make(chan struct{})
			go func() {
				defer close(said)
				if conn, err := l.Accept(); err == nil {
					_, _ = conn.Write([]byte("hello"))
					_ = conn.Close()
				}
			}()
			data, err := Read(t.Context(), dir, "a.sock")
			if err != nil || string(data) != "hello" {
				t.Errorf("got %q, %v", data, err)
			}
			<-said
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "a.sock")); !os.IsNotExist(err) {
				t.Errorf("the socket is left: %v", err)
			}
		})
	}
}

func TestNobodyListeningIsNotFound(t *testing.T) {
	for name, dir := range dirs(t) {
		for _, dir := range []string{dir, filepath.Join(dir, "none")} {
			if _, err := Read(t.Context(), dir, "a.sock"); !errors.Is(err, errors.NotFound) {
				t.Errorf("%s: got %v, want NotFound", name, err)
			}
		}
	}
}

func TestSocketOfSomebodyWhoWasKilledIsReplaced(t *testing.T) {
	dir := t.TempDir()
	old, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = old.Close()
	if _, err := Read(t.Context(), dir, "a.sock"); !errors.Is(err, errors.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	l, err := Listen(t.Context(), dir, "a.sock")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestReadHeedsItsContext(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(t.Context(), dir, "a.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // says nothing
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := Read(ctx, dir, "a.sock"); done <- err }()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("want an error")
		}
	case <-time.After(10 * time.Second):
		t.Error("still waiting")
	}
}

func TestSocketThatCannotBeMadeIsAnError(t *testing.T) {
	if _, err := Listen(t.Context(), filepath.Join(t.TempDir(), "none"), "a.sock"); err == nil {
		t.Error("want an error")
	}
}
