package demo

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

// home is where operators live.
type home interface {
	// flags are the agent's, for operators that live there.
	flags() []string
	// operator returns what tells the application's operator, of which there
	// must be exactly one that runs, from one that was started before.
	operator(ctx context.Context, app string) (string, error)
	// empty checks that nothing of an operator is there.
	empty(ctx context.Context, app string) error
	// confs are the two files that the operator has its password in.
	confs(ctx context.Context, app string) ([][]byte, error)
	// search hands out whatever people may see of operators that is not in a
	// file of the stage.
	search(ctx context.Context, check func(where string, data []byte) error) error
	// processes are those of operators on this machine.
	processes() ([]int, error)
}

// machine is the home of operators that are processes; it is the directory that
// they have theirs in.
type machine string

func (m machine) flags() []string { return nil }

func (m machine) find() (map[string][]int, error) {
	return findProcesses(func(args []string) (string, bool) {
		if len(args) != 6 || args[1] != "operator" || args[3] != filepath.Join(string(m), args[5]) {
			return "", false
		}
		return args[5], true
	})
}

func (m machine) processes() ([]int, error) {
	found, err := m.find()
	var all []int
	for _, pids := range found {
		all = append(all, pids...)
	}
	return all, err
}

func (m machine) operator(_ context.Context, app string) (string, error) {
	found, err := m.find()
	if err != nil {
		return "", err
	}
	if pids := found[app]; len(pids) != 1 {
		return "", errors.Errorf("%s has %d operator processes, want one", app, len(pids))
	}
	return strconv.Itoa(found[app][0]), nil
}

func (m machine) empty(_ context.Context, app string) error {
	found, err := m.find()
	if err != nil {
		return err
	}
	if len(found[app]) > 0 {
		return errors.Errorf("%s has an operator process", app)
	}
	if _, err := os.Stat(filepath.Join(string(m), app)); !os.IsNotExist(err) {
		return errors.Errorf("%s has an operator's directory (%v)", app, err)
	}
	return nil
}

func (m machine) confs(_ context.Context, app string) ([][]byte, error) {
	var files [][]byte
	for _, name := range []string{"template-agent.conf", "agent.conf"} {
		data, err := os.ReadFile(filepath.Join(string(m), app, name))
		if err != nil {
			return nil, errors.Trace(err)
		}
		files = append(files, data)
	}
	return files, nil
}

func (m machine) search(context.Context, func(string, []byte) error) error { return nil }

// boxProcesses finds those of boxes in dir, by instance.
func boxProcesses(dir string) (map[string][]int, error) {
	return findProcesses(func(args []string) (string, bool) {
		if len(args) != 4 || args[1] != "box" || filepath.Dir(args[3]) != dir {
			return "", false
		}
		return filepath.Base(args[3]), true
	})
}

// findProcesses finds processes by what is made of their arguments. One that
// ended and was not waited for is none.
func findProcesses(nameOf func(args []string) (string, bool)) (map[string][]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, errors.Annotate(err, "listing processes")
	}
	found := map[string][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has just ended
		}
		if name, ok := nameOf(strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")); ok {
			found[name] = append(found[name], pid)
		}
	}
	return found, nil
}

// processes are the operators and boxes of the stage.
func (s *stage) processes() ([]int, error) {
	operators, err := s.home.processes()
	if err != nil {
		return nil, err
	}
	boxes, err := boxProcesses(s.boxesDir())
	for _, pids := range boxes {
		operators = append(operators, pids...)
	}
	return operators, err
}

// sameOperator checks that the operator is the one that it was before.
func (s *stage) sameOperator(ctx context.Context, app string) error {
	now, err := s.home.operator(ctx, app)
	if err == nil && now != s.operators[app] {
		err = errors.Errorf("%s has another operator, %s, than before, %s", app, now, s.operators[app])
	}
	return err
}
