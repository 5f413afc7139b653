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
	home    home
	timeout time.Duration // of a step

	agent *child // nil when there is none
	last  *view
	// joined are agents that share the controller of agent; leader is the one
	// that leads, and waiting tells who says that it does not.
	joined  map[string]*child
	leader  string
	waiting map[string]bool
	// reports are all that the agent ever said, to search for secrets.
	reports [][]byte

	// What steps tell later ones.
	keys      map[string]credentials
	operators map[string]string // by application, as home tells them apart
	pids      map[string]int    // of boxes, by container
	prepared  string            // how the machine was, once it was
	userData  string            // a container's, to search for
	holders   []string          // the containers whose files have it
}

// child is a process that the stage started.
type child struct {
	cmd   *exec.Cmd
	ended chan error
}

func newStage(program, dir string, screen *screen) *stage {
	s := &stage{
		program: program,
		dir:     filepath.Join(dir, "model"),
		logPath: filepath.Join(dir, "agent.log"),
		screen:  screen,
		timeout: stepTimeout,

		joined:    map[string]*child{},
		keys:      map[string]credentials{},
		operators: map[string]string{},
		pids:      map[string]int{},
		// A new one each time, so that what is found is this one.
		userData: "user-data-" + rand.Text(),
		holders:  []string{firstBox},
	}
	s.home = machine(filepath.Join(s.stateDir(), "operators"))
	return s
}

func (s *stage) stateDir() string { return filepath.Join(s.dir, controller.StateDir) }
func (s *stage) boxesDir() string { return filepath.Join(s.stateDir(), "boxes") }

// startAgent starts the agent.
func (s *stage) startAgent() (err error) {
	s.agent, err = s.start(s.home.flags()...)
	return err
}

// start starts the program on the model, with everything in the agent's log.
func (s *stage) start(args ...string) (*child, error) {
	log, err := os.OpenFile(s.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer log.Close()
	// Not bound to a context: when the demo is interrupted, it is the stage
	// that ends the agent, in its own time.
	cmd := exec.Command(s.program, append(args, "--model", s.dir, "--debug")...) //nolint:noctx // see above
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C is for the demo, which then stops the agent itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Annotate(err, "starting the agent")
	}
	c := &child{cmd, make(chan error, 1)}
	go func() { c.ended <- cmd.Wait() }()
	return c, nil
}

// signal sends the process a signal and returns how it ended.
func (c *child) signal(ctx context.Context, sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil {
		return errors.Trace(err)
	}
	select {
	case err := <-c.ended:
		c.ended <- err
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends the process, if it has not ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	c.ended <- <-c.ended
}

// signalAgent sends the agent a signal and returns how it ended.
func (s *stage) signalAgent(ctx context.Context, sig syscall.Signal) error {
	err := s.agent.signal(ctx, sig)
	if ctx.Err() == nil {
		s.agent = nil
	}
	return err
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
		if s.agent == nil {
			continue
		}
		select {
		case err := <-s.agent.ended:
			s.agent.ended <- err
			return errors.Errorf("the agent ended: %v", err)
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
	s.lookAtJoined(ctx, v)
	s.last = v
	s.screen.table(v.rows(), v.containerRows())
	return nil
}

// lookAtJoined fetches the reports of agents that joined the controller, and has the
// leader's stand for all. One of them may be gone.
func (s *stage) lookAtJoined(ctx context.Context, v *view) {
	s.leader, s.waiting = "", map[string]bool{}
	for name := range s.joined {
		data, err := report.Fetch(ctx, controller.JoinedDir(s.stateDir(), name))
		if err != nil {
			continue
		}
		s.reports = append(s.reports, data)
		own, err := parseView(data)
		if err != nil {
			continue
		}
		if own.Manifolds.Leader.State != "started" {
			s.waiting[name] = own.Manifolds.Provisioner.State != "started"
			continue
		}
		s.leader = name
		v.Manifolds.Provisioner = own.Manifolds.Provisioner
	}
}

// clear ends every process of the stage, whatever happened to it.
func (s *stage) clear() {
	if s.agent != nil {
		s.agent.kill()
	}
	for _, c := range s.joined {
		c.kill()
	}
	if _, ok := s.home.(*pods); ok {
		return // what is left goes with the namespace
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
