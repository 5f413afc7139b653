package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The test's own binary is the program, when it is asked to be.
const asProgram = "MINIMAL_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// budget is for a machine that is busy with much else.
const budget = time.Minute

func TestOperatorRunsUntilTheProgramIsInterrupted(t *testing.T) {
	temp := t.TempDir()
	program, lines := start(t, temp)

	for !strings.Contains(next(t, lines), "operator of hello: running") {
	}
	if got := processesBelow(t, temp); len(got) != 1 || !strings.HasSuffix(got[0], "sleep infinity") {
		t.Errorf("operators that run: %q, want one that sleeps", got)
	}

	if err := program.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range lines {
		// Until the program has closed its end.
	}
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v, want success", err)
	}
	if got := processesBelow(t, temp); len(got) > 0 {
		t.Errorf("processes left: %q", got)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestMainIsUnderAHundredLines(t *testing.T) {
	data, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), "\n"); n >= 100 {
		t.Errorf("main.go has %d lines: it is there to be short", n)
	}
}

// start starts the program, whose temporary directory is the one given, and
// returns the lines that it prints.
func start(t *testing.T, temp string) (*exec.Cmd, <-chan string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(os.Environ(), asProgram+"=yes", "TMPDIR="+temp)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		_ = program.Process.Kill()
		for range lines {
			// The reader's goroutine ends with the program.
		}
		_ = program.Wait()
		killBelow(t, temp)
	})
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	return program, lines
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line, ok := <-lines:
		if !ok {
			t.Fatal("the program has ended")
		}
		t.Log(line)
		return line
	case <-time.After(budget):
		t.Fatal("the program says nothing more")
	}
	return ""
}

// below returns the folders in /proc of the processes that work in a directory.
func below(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(proc string) bool {
		cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
		return err != nil || !strings.HasPrefix(cwd, dir+"/")
	})
}

func processesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for _, proc := range below(t, dir) {
		// Gone since, if it cannot be read.
		if args, err := os.ReadFile(filepath.Join(proc, "cmdline")); err == nil {
			out = append(out, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " ")))
		}
	}
	return out
}

// killBelow takes away what a program that failed has left.
func killBelow(t *testing.T, dir string) {
	t.Helper()
	for _, proc := range below(t, dir) {
		var pid int
		if _, err := fmt.Sscan(filepath.Base(proc), &pid); err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}
