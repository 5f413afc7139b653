package process

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/sutler-dev/sutler/operator"
)

var (
	seed    = flag.Uint64("process.seed", 0, "play this one random story")
	stories = flag.Int("process.stories", 4, "how many random stories to play")
)

// TestRandomStories does things to a manager and behind its back, in an order
// that a seed gives, and then asks for a final state. Whatever came before:
//
//   - a wanted operator has one process, which read what was ensured last;
//   - its agent.conf is what its present directory was first given;
//   - an unwanted one has no process and no directory;
//   - nothing half made is left, and nothing runs that the report does not name.
func TestRandomStories(t *testing.T) {
	if *seed != 0 {
		playStory(t, *seed)
		return
	}
	for range *stories {
		s := rand.Uint64() | 1
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			t.Parallel()
			playStory(t, s)
			if t.Failed() {
				t.Logf("replay with -run TestRandomStories -process.seed %d", s)
			}
		})
	}
}

// playStory fails the test only through Errorf and Fatalf of the bench, so the
// subtest's name tells the seed.
func playStory(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t)
	b.config.StopTimeout = 50 * time.Millisecond
	b.start()
	apps := []string{"mysql", "stubborn", "with-child", "crashing"}
	var log []string
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %q", seed, log)
		}
	}()
	for n := range 40 {
		app := apps[r.IntN(len(apps))]
		cfg := config(app, r.IntN(3))
		blind := r.IntN(4) == 0
		if op, err := b.manager.Operator(t.Context(), app); err == nil && !blind {
			cfg.Generation = op.Config.Generation
		}
		var what string
		var err error
		k, more := r.IntN(20), r.IntN(30)
		switch {
		case k < 7:
			what = "ensure"
			err = b.manager.EnsureOperator(t.Context(), app, "/", cfg)
		case k < 9:
			what = "stage"
			_, err = b.manager.StageOperator(t.Context(), app, "/", cfg)
		case k < 11:
			what = "delete"
			err = b.manager.DeleteOperator(t.Context(), app)
		case k < 13:
			what = "kill -9"
			for _, pid := range b.runningFor(app) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		case k < 15:
			what = "restart"
			b.restart()
		case k < 16:
			what = "stop all and restart"
			m := b.manager
			if more%2 == 0 {
				b.kill()
			}
			if err := m.StopOperators(t.Context()); err != nil {
				t.Fatalf("StopOperators: %v", err)
			}
			for _, pid := range b.running() {
				args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				t.Errorf("%d after StopOperators process %d runs: %q %q %q", more, pid, args, env, stat)
			}
			if b.manager != nil {
				b.kill()
			}
			b.start()
		case k < 17:
			what = "take the directory away"
			_ = os.Rename(b.path(app), filepath.Join(t.TempDir(), fmt.Sprint("away-", n)))
		case k < 18:
			what = "take a file away"
			_ = os.Remove(b.path(app, []string{templateName, infoName, logName}[more%3]))
		default:
			what = "let time pass"
			time.Sleep(time.Duration(more) * time.Millisecond) // for variety, not to wait
		}
		log = append(log, what+" "+app)
		for _, kind := range []error{operator.ErrConflict, jujuerrors.NotYetAvailable} {
			if errors.Is(err, kind) {
				err = nil
			}
		}
		// A directory may lose its name while it is worked on.
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s %s: %v", what, app, err)
		}
	}

	dead := apps[r.IntN(2)]
	if err := b.manager.DeleteOperator(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	b.gone(dead)
	for _, app := range []string{"mysql", "stubborn", "with-child"} {
		if app == dead {
			continue
		}
		want := config(app, 7)
		b.eventually("ensured at last", func() bool {
			want.Generation = ""
			if op, err := b.manager.Operator(t.Context(), app); err == nil {
				want.Generation = op.Config.Generation
			}
			err := b.manager.EnsureOperator(t.Context(), app, "/", want)
			log = append(log[:40], fmt.Sprintf("last: %s: %v", app, err))
			return err == nil
		})
		b.eventually("it runs with what was ensured last", func() bool {
			last := b.last(app)
			return last.Pid == b.pid(app) && last.Template == want.AgentConf.Reveal() && last.Info == want.OperatorInfo.Reveal()
		})
		b.settled(app)
		births := b.births(app)
		if births[0].AgentConf != births[len(births)-1].AgentConf || b.read(app, agentConfName) != births[0].AgentConf {
			t.Errorf("%s: agent.conf changed", app)
		}
	}
	if err := b.manager.DeleteOperator(t.Context(), "crashing"); err != nil {
		t.Fatal(err)
	}
	b.gone("crashing")
	b.eventually("nothing half made is left", func() bool {
		entries, _ := os.ReadDir(b.dir)
		return len(entries) == 3
	})
	// One that was started just before it was ensured for the last time may
	// have read the new files already, and be started again all the same.
	b.eventually("nothing else runs", func() bool {
		var known []int
		for _, app := range apps {
			if pid := b.pid(app); pid != 0 {
				known = append(known, pid)
				if child := b.last(app).Child; child != 0 {
					known = append(known, child)
				}
			}
		}
		running := b.running()
		slices.Sort(running)
		slices.Sort(known)
		return slices.Equal(running, known)
	})
}
