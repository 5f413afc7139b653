package demo

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/controller"
	"github.com/sutler-dev/sutler/examples/agent/internal/report"
)

// stage is where the story plays: a model, an agent on it, its operators and its
// boxes.
type stage struct {
	program string
	dir     string // the model's
	logPath string
	screen  *screen

	agent *exec.Cmd  // nil when there is none
	ended chan error // of the agent
	last  *view
	// reports are all that the agent ever said, to search for secrets.
	reports [][]byte

	// What steps tell later ones.
	keys     map[string]credentials
	pids     map[string]int // of operators, by application, and of boxes, by container
	prepared string         // how the machine was, once it was
	userData string         // a box's, to search for
}

func newStage(program, dir string, screen *screen) *stage {
	return &stage{
		program: program,
		dir:     filepath.Join(dir, "model"),
		logPath: filepath.Join(dir, "agent.log"),
		screen:  screen,
		keys:    map[string]credentials{},
		pids:    map[string]int{},
		// A new one each time, so that what is found is this one.
		userData: "user-data-" + rand.Text(),
	}
}

func (s *stage) stateDir() string     { return filepath.Join(s.dir, controller.StateDir) }
func (s *stage) operatorsDir() string { return filepath.Join(s.stateDir(), "operators") }
func (s *stage) boxesDir() string     { return filepath.Join(s.stateDir(), "boxes") }

// startAgent starts the agent as a child, with everything in its log.
func (s *stage) startAgent() error {
	log, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer log.Close()
	// Not bound to a context: when the demo is interrupted, it is the stage
	// that ends the agent, in its own time.
	cmd := exec.Command(s.program, "--model", s.dir, "--debug") //nolint:noctx // see above
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C is for the demo, which then stops the agent itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Annotate(err, "starting the agent")
	}
	s.agent, s.ended = cmd, make(chan error, 1)
	go func() { s.ended <- cmd.Wait() }()
	return nil
}

// signalAgent sends the agent a signal and returns how it ended.
func (s *stage) signalAgent(ctx context.Context, sig syscall.Signal) error {
	if err := s.agent.Process.Signal(sig); err != nil {
		return errors.Trace(err)
	}
	select {
	case err := <-s.ended:
		s.agent = nil
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// until asks for the agent's report, shows it, and has it checked, until the
// check is content.
func (s *stage) until(ctx context.Context, check func(*view) error) error {
	for {
		err := s.look(ctx)
		if err == nil {
			err = check(s.last)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.Canceled) {
				return errors.New("interrupted")
			}
			return errors.Annotate(err, context.Cause(ctx).Error())
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			if s.agent != nil {
				return errors.Errorf("the agent ended: %v", err)
			}
		default:
		}
	}
}

// look fetches the report.
func (s *stage) look(ctx context.Context) error {
	data, err := report.Fetch(ctx, s.stateDir())
	if err != nil {
		return err
	}
	v, err := parseView(data)
	if err != nil {
		return err
	}
	s.reports = append(s.reports, data)
	s.last = v
	s.screen.table(v.rows(), v.containerRows())
	return nil
}

// clear ends every process of the stage, whatever happened to it.
func (s *stage) clear() {
	if s.agent != nil {
		_ = s.agent.Process.Kill()
		<-s.ended //nolint:errcheck // it was killed
	}
	// An agent that was killed leaves operators and boxes on purpose.
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pids, err := s.processes()
		if err != nil || len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// showLog shows the end of the agent's log.
func (s *stage) showLog() {
	const lines = 30
	data, err := os.ReadFile(s.logPath)
	if err != nil {
		return
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	s.screen.say("The end of the agent's log:")
	for _, line := range all[max(0, len(all)-lines):] {
		s.screen.say("  %s", line)
	}
	s.screen.say("")
}
