package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/juju/errors"
)

// What stories have in common in which an agent prepares the machine.

// output runs a command and returns what it printed.
func output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), errors.Errorf("%s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// packages is the part of looks that others change, too.
const packages = "packages"

// looks is what a machine looks like, in parts.
type looks map[string]string

// noteLooks notes what the machine looks like: its network and packages, and by more commands.
func noteLooks(ctx context.Context, more map[string]string) (looks, error) {
	all := looks{}
	for _, commands := range []map[string]string{more, {
		"interfaces":  "ip -o link show",
		"addresses":   "ip -o address show",
		"routes":      "ip route show table all",
		"IPv6 routes": "ip -6 route show table all",
		"rules":       "ip rule show",
		packages:      "dpkg-query --show",
	}} {
		for part, command := range commands {
			text, err := output(ctx, strings.Fields(command)...)
			if err != nil {
				return nil, err
			}
			all[part] = text
		}
	}
	return all, nil
}

// same returns what is another than before, by its first line.
func (l looks) same(now looks) error {
	for part, was := range l {
		before, after := strings.Split(was, "\n"), strings.Split(now[part], "\n")
		for _, line := range after {
			// Somebody else may install packages meanwhile; none may be gone.
			if !slices.Contains(before, line) && part != packages {
				return errors.Errorf("%s: new is %q", part, line)
			}
		}
		for _, line := range before {
			if !slices.Contains(after, line) {
				return errors.Errorf("%s: missing is %q", part, line)
			}
		}
		if was != now[part] && part != packages {
			return errors.Errorf("%s: in another order", part)
		}
	}
	return nil
}

// host calls agent host.
func (s *stage) host(ctx context.Context, what string, flags ...string) (string, error) {
	return output(ctx, append([]string{s.program, "host", what, "--model", s.dir}, flags...)...)
}

// doneOnce checks that each step of a plan was done once, by the agent's log, which has it
// after what it says, and by the record that undo goes by. Steps that were undone in
// between were done again.
func (s *stage) doneOnce(plan, says, record string, again ...string) error {
	log, err := os.ReadFile(s.logPath)
	if err != nil {
		return errors.Trace(err)
	}
	for line := range strings.Lines(plan) {
		_, step, _ := strings.Cut(line, ". ")
		step, _, _ = strings.Cut(step, ": ")
		times := 1
		if slices.Contains(again, step) {
			times = 2
		}
		if n := strings.Count(string(log), fmt.Sprintf("step=%q", step)); n != times {
			return errors.Errorf("%q was done %d times", step, n)
		}
	}
	if n := strings.Count(string(log), says); n != strings.Count(plan, "\n")+len(again) {
		return errors.Errorf("%d steps were taken, of a plan of\n%s", n, plan)
	}
	data, err := os.ReadFile(filepath.Join(s.stateDir(), record))
	if err != nil {
		return errors.Trace(err)
	}
	var done struct {
		Steps []struct{} `json:"steps"`
	}
	if err := json.Unmarshal(data, &done); err != nil {
		return errors.Annotate(err, "the record of what was done")
	}
	if n := len(done.Steps); n != strings.Count(plan, "\n") {
		return errors.Errorf("%d steps are recorded", n)
	}
	return nil
}

// remove has containers be dead, and waits until nothing is left of them.
func (s *stage) remove(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if err := s.write(containerPath(id), "life: dead\n"); err != nil {
			return err
		}
	}
	if err := s.until(ctx, func(v *view) error {
		for _, id := range ids {
			if c := v.container(id); c.Life != "" {
				return errors.Errorf("%s is still there, %s (%s)", id, c.Life, c.Message)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := os.Stat(filepath.Join(s.stateDir(), "removed", containerFile(id))); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// knock goes to an address where nobody listens: the refusal comes from there.
func knock(ctx context.Context, addr netip.Addr) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(addr, 9).String())
	if err == nil {
		return errors.Trace(conn.Close())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return errors.Trace(err)
}

// searchFiles goes through all files in a folder, but for those that have a secret, which
// have to be private.
func searchFiles(dir string, secret []string, check func(where string, data []byte) error) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is gone meanwhile
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if slices.Contains(secret, path) {
			return private(path, entry)
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return check(path, data)
	})
	return errors.Trace(err)
}

// searchProcesses goes through the arguments and environment of everybody.
func searchProcesses(check func(where string, data []byte) error) error {
	for _, name := range []string{"cmdline", "environ"} {
		paths, err := filepath.Glob("/proc/[0-9]*/" + name)
		if err != nil {
			return errors.Trace(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				continue // it has just ended
			}
			if err := check(path, data); err != nil {
				return err
			}
		}
	}
	return nil
}
