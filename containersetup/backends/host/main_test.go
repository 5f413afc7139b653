//go:build unix

package host_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// The test binary is its own other process: with these arguments it runs no tests.
const (
	lockRole  = "hold-a-lock"    // then a file; ends with its input
	writeRole = "write-for-ever" // then a file, and the text that makes one version of it
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case lockRole:
			holdLock(os.Args[2])
			return
		case writeRole:
			writeForEver(os.Args[2])
			return
		}
	}
	os.Exit(m.Run())
}

// versions of a file, by turns.
func versions() []string {
	return []string{strings.Repeat("a", 300_000), strings.Repeat("b", 200_000)}
}

func writeForEver(name string) {
	for {
		for _, version := range versions() {
			if err := host.New(host.Config{}).WriteFile(context.Background(), name, []byte(version), 0o600); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println("written")
		}
	}
}

func holdLock(name string) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	if err == nil {
		err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLKW, &syscall.Flock_t{Type: syscall.F_WRLCK})
	}
	fmt.Println("held", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// other is another process.
type other struct {
	*exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

// start starts the test binary in a role, and returns once it has said its first line.
func start(t *testing.T, role, file string) *other {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &other{Cmd: exec.Command(self, role, file)}
	stdin, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.lines = stdin, bufio.NewScanner(stdout)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	if !p.lines.Scan() {
		t.Fatal("it said nothing")
	}
	return p
}

// eventually waits for something outside of this process.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so within a minute: %s", what)
		}
	}
}
