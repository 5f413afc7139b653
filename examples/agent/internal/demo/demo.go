package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/errors"
)

const (
	// stepTimeout is how long a step may take. None needs more than a few
	// seconds; a machine may be busy.
	stepTimeout = time.Minute
	// podTimeout is that of a step with pods, of which some have to end, be
	// started, and pass a probe.
	podTimeout = 3 * time.Minute
	// pollInterval is how often the agent is asked for its report.
	pollInterval = 200 * time.Millisecond
)

// Config is what the demo works with. Program and Out are required.
type Config struct {
	// Cluster has operators be pods; nil has them be processes.
	Cluster *Cluster
	// Disk has containers be virtual machines of a libvirt that is there for the demo, and
	// is the path of the image of their disks, which testbed/libvirt-guest makes.
	Disk string
	// LXD has containers be LXD's, of the daemon in the environment variable
	// LXD_DIR, which is there for the demo.
	LXD bool
	// Program is the path of the agent's own program.
	Program string
	// Out is where the story is told: in colour and with a live table when
	// it is a terminal.
	Out io.Writer
}

// step is one part of the story.
type step struct {
	title string
	play  func(*stage, context.Context) error
}

// Run plays the story, until ctx is cancelled. It returns nil if all of it came
// true.
func Run(ctx context.Context, config Config) error {
	dir, err := os.MkdirTemp("", "sutler-demo-")
	if err != nil {
		return errors.Trace(err)
	}
	screen := newScreen(config.Out)
	s := newStage(config.Program, dir, screen)
	defer func() { s.clear(); _ = os.RemoveAll(dir) }()

	steps, about := story(), "operators for six applications, and containers,"
	switch {
	case config.Cluster != nil:
		p, err := newPods(ctx, *config.Cluster)
		if err != nil {
			return err
		}
		defer p.clear(ctx)
		s.timeout = podTimeout
		s.home, steps, about = p, podStory(p), "operators, which are pods in "+p.namespace+","
	case config.Disk != "":
		b, err := newKVMBed(ctx, config.Disk)
		if err != nil {
			return err
		}
		defer b.clear(ctx, s)
		s.timeout = kvmTimeout
		s.holders = []string{firstKVM, badKVM, cutKVM}
		s.home, steps, about = kvmHome{machine(""), b}, kvmStory(b), "virtual machines, which are libvirt's,"
	case config.LXD:
		b, err := newLXDBed(ctx)
		if err != nil {
			return err
		}
		defer b.clear(ctx, s)
		s.timeout = lxdTimeout
		s.holders = []string{firstLXD, secondLXD, unknownLXD, cutLXD, lateLXD}
		s.home, steps, about = lxdHome{machine(""), b}, lxdStory(b), "containers, which are LXD's in "+b.root+","
	}
	screen.say("An agent keeps %s of a model in", about)
	screen.say("%s", filepath.Join(dir, "model"))
	screen.say("")
	begin := time.Now()
	failed := playAll(ctx, s, steps)
	screen.clear()
	screen.say("")
	took := time.Since(begin).Round(100 * time.Millisecond)
	if failed == nil {
		screen.say("%s  all of it came true, in %s", screen.good("PASS"), took)
		return nil
	}
	if ctx.Err() == nil { // nobody interrupted it
		s.showLog()
	}
	screen.say("%s  after %s", screen.bad("FAIL"), took)
	return failed
}

// playAll plays one step after the other. Each builds on those before it, so the
// first that fails is the last.
func playAll(ctx context.Context, s *stage, steps []step) error {
	for i, step := range steps {
		label := fmt.Sprintf("%2d/%d  %s", i+1, len(steps), step.title)
		s.screen.now(label)
		begin := time.Now()
		err := s.play(ctx, step)
		took := fmt.Sprintf("%5.1f s", time.Since(begin).Seconds())
		if err != nil {
			s.screen.say("%s  %s  %s", s.screen.bad("FAIL"), took, label)
			s.screen.say("      %v", err)
			if left := len(steps) - i - 1; left > 0 {
				s.screen.say("      %d more not played", left)
			}
			return errors.Errorf("step %d of the demo: %v", i+1, err)
		}
		s.screen.say("%s  %s  %s", s.screen.good("PASS"), took, label)
	}
	return nil
}

func (s *stage) play(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errors.Timeoutf("after %s", s.timeout))
	defer cancel()
	return step.play(s, ctx)
}
