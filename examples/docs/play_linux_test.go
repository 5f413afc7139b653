package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const buildCommand = "go build -C examples -o ../agent ./agent"

// buildAgent runs the command that the page has for it, but that its result is put
// elsewhere than into the checkout.
func buildAgent(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("not in a short run")
	}
	program := filepath.Join(t.TempDir(), "agent")
	if proofs[buildCommand].by != played {
		t.Fatalf("%q is not played any more", buildCommand)
	}
	if out, err := shell(t, root, strings.Replace(buildCommand, "../agent", program, 1)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

var messageOf = regexp.MustCompile(`msg="?([^"=]+)"? `)

// The page's commands are run in order, and what it shows of the log has to come.
func TestTheAgentsReadmeIsPlayed(t *testing.T) {
	program := buildAgent(t)
	dir := t.TempDir()
	if err := os.Symlink(program, filepath.Join(dir, "agent")); err != nil {
		t.Fatal(err)
	}
	var running *runningAgent
	stop := func() {
		if running != nil {
			running.stop(t)
		}
		running = nil
	}
	defer stop()
	for _, c := range allCommands(t) {
		if proofs[c.text].by != played || c.text == buildCommand {
			continue
		}
		if strings.HasPrefix(c.text, "curl ") {
			if _, err := exec.LookPath("curl"); err != nil {
				require(t, "curl", err)
			}
		}
		if strings.HasPrefix(c.text, "./agent ") {
			stop() // a new start, as the page says
			running = startAgent(t, dir, c.text)
			running.awaits(t, "msg=") // it takes signals by then
		} else {
			perform(t, dir, c, running != nil)
		}
		for _, line := range c.output {
			m := messageOf.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("%s:%d: no message in %q", c.page, c.line, line)
			}
			running.awaits(t, m[1])
		}
	}
}

// perform runs a command. What is done in another terminal while the agent starts may
// come too early.
func perform(t *testing.T, dir string, c command, patient bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := shell(t, dir, c.text)
		if err == nil {
			return
		}
		if !patient || time.Now().After(deadline) {
			t.Fatalf("%s:%d: %s: %v\n%s", c.page, c.line, c.text, err, out)
		}
	}
}

// Flags that are not known are told before anything else is looked at.
func TestFlagsAreKnown(t *testing.T) {
	program := buildAgent(t)
	dir := t.TempDir() // without a model
	for text, p := range proofs {
		if p.by != agentFlags {
			continue
		}
		arguments := strings.Fields(strings.TrimPrefix(strings.TrimPrefix(text, "sudo "), "./agent "))
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, arguments...)
		cmd.Dir, cmd.Stderr = dir, &out
		err := cmd.Run()
		if err == nil || !strings.Contains(out.String(), "is not there") && !strings.Contains(out.String(), "no agent runs on") {
			t.Errorf("%s: %v, %q; want that there is no model", text, err, out.String())
		}
	}
}

// runningAgent is an agent that is to be stopped, and what it has said.
type runningAgent struct {
	cmd    *exec.Cmd
	cancel context.CancelFunc

	mu   sync.Mutex
	said bytes.Buffer
}

func (r *runningAgent) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(p)
}

func (r *runningAgent) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

func startAgent(t *testing.T, dir, text string) *runningAgent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r := &runningAgent{cancel: cancel}
	r.cmd = exec.CommandContext(ctx, "sh", "-ec", "exec "+text)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = dir, r, r
	r.cmd.WaitDelay = time.Minute
	if err := r.cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	return r
}

// awaits polls for a message.
func (r *runningAgent) awaits(t *testing.T, message string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(r.text(), message); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the agent never said %q:\n%s", message, r.text())
		}
	}
}

// stop is Ctrl-C.
func (r *runningAgent) stop(t *testing.T) {
	t.Helper()
	defer r.cancel()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v:\n%s", err, r.text())
	}
}
