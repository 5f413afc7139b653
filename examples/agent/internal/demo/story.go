package demo

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// The applications of the story.
const (
	database = "mariadb" // is killed, and lives
	cache    = "redis"   // will be dying
	forge    = "gitlab"  // will be dead
	metrics  = "prometheus"
	modern   = "postgresql" // has a charm of format 2
	archive  = "archive"    // asks for storage that there is none of here
	proxy    = "haproxy"    // comes late
	broken   = "broken"     // comes late and malformed
)

// The containers of the story.
const (
	foreign   = "0/zone/0" // of a type that this agent has no back end for
	firstBox  = "0/box/0"
	secondBox = "0/box/1" // will be dead
	brokenBox = "0/box/2" // comes late and malformed
)

func ours() []string { return []string{database, cache, forge, metrics} }

func story() []step {
	return []step{
		{"four applications of format 1 come up and log in", (*stage).comeUp},
		{"one of format 2 is not ours and is let alone", (*stage).ignoreModern},
		{"one that asks for unknown storage fails alone; the report says why", (*stage).failAlone},
		{"a container of a type that cannot be had here says why, and that is all", (*stage).refuseForeign},
		{"the first box: the machine is prepared, it runs and has an address", (*stage).prepareMachine},
		{"the second box runs, and the machine is not prepared again", (*stage).addBox},
		{"an operator killed with -9 comes back with the same password", (*stage).killOperator},
		{"a dying application keeps its operator", (*stage).keepDying},
		{"a dead one loses it", (*stage).removeDead},
		{"kill -9 of the agent: operators and boxes go on and are adopted", (*stage).killAgent},
		{"a dead box is removed, and the other one stays", (*stage).removeBox},
		{"a malformed file is named with its line, and the rest goes on", (*stage).malform},
		{"from outside, a page and metrics tell the same", (*stage).lookFromOutside},
		{"no secret is in a log, a report, a page, an argument or an environment", (*stage).keepSecrets},
		{"SIGTERM stops the agent, every operator and every box", (*stage).stop},
	}
}

const (
	settings = `# A model for the demo.
name: demo
uuid: 9c3f1f0e-5b0a-4a53-8f4e-7d5b6a1c2d3e
version: 2.9.49
`
	machineSettings = `# What this machine can have, if this agent can make it.
id: 0
containers: [lxd, zone, box]
`
	alive = "life: alive\n"
)

// v1 is the metadata of a charm of format 1, which names its series.
func v1(name string) string {
	return "name: " + name + "-k8s\nsummary: An application of the demo.\nseries:\n- kubernetes\n"
}

func (s *stage) comeUp(ctx context.Context) error {
	if err := s.write("machine.yaml", machineSettings); err != nil {
		return err
	}
	return s.comeUpWithout(ctx)
}

// comeUpWithout is comeUp without a machine that can have containers.
func (s *stage) comeUpWithout(ctx context.Context) error {
	if err := s.write("model.yaml", settings); err != nil {
		return err
	}
	for _, app := range ours() {
		if err := s.deploy(app, alive, v1(app), ""); err != nil {
			return err
		}
	}
	err := s.deploy(modern, alive, "name: postgresql-k8s\nsummary: Names no series.\n",
		"bases:\n- name: ubuntu\n  channel: '22.04'\n  architectures: [amd64]\n")
	if err != nil {
		return err
	}
	err = s.deploy(archive, alive+"storage:\n  provider: cinder\n  size: 1024\n", v1(archive), "")
	if err != nil {
		return err
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	for _, app := range ours() {
		if err := s.expectActive(ctx, app); err != nil {
			return err
		}
		if s.keys[app], err = s.readCredentials(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// expectActive waits until the operator has logged in, has said that it is
// active, and never was refused; then it calls it up. Which one it is is noted.
func (s *stage) expectActive(ctx context.Context, app string) error {
	err := s.until(ctx, func(v *view) error {
		a := v.application(app)
		op := a.Operator
		switch state := v.progress(app).State; {
		case a.unseen():
			return errors.Errorf("%s has not been looked at", app)
		case op.Refused > 0:
			return errors.Errorf("%s was refused", app)
		case op.Logins == 0 || op.Status != "active":
			return errors.Errorf("%s has not logged in", app)
		case state != settled:
			return errors.Errorf("%s is %s", app, state)
		}
		var err error
		s.operators[app], err = s.home.operator(ctx, app)
		return err
	})
	if err != nil {
		return err
	}
	op := s.last.application(app).Operator
	return s.checkCertificate(ctx, app, op.Address, op.Certificate)
}

func (s *stage) ignoreModern(ctx context.Context) error {
	return s.until(ctx, func(v *view) error {
		a := v.application(modern)
		switch {
		case a.Format != 2:
			return errors.Errorf("%s has format %d", modern, a.Format)
		case v.progress(modern).State != settled:
			return errors.Errorf("%s is %s", modern, v.progress(modern).State)
		case a.Operator.Logins > 0:
			return errors.Errorf("%s has logged in", modern)
		}
		hashes, err := s.hashes()
		if err != nil {
			return err
		}
		if _, ok := hashes[modern]; ok {
			return errors.Errorf("%s has a password", modern)
		}
		return s.home.empty(ctx, modern)
	})
}

func (s *stage) failAlone(ctx context.Context) error {
	return s.until(ctx, func(v *view) error {
		p := v.progress(archive)
		switch {
		case p.State != "failed":
			return errors.Errorf("%s is %s", archive, p.State)
		case !strings.Contains(p.Error, "cinder"):
			return errors.Errorf("the report does not say why %s failed: %q", archive, p.Error)
		case v.failed() != 1:
			return errors.Errorf("%d applications failed, want one", v.failed())
		}
		return s.home.empty(ctx, archive)
	})
}

func (s *stage) killOperator(ctx context.Context) error {
	pid, err := strconv.Atoi(s.operators[database])
	if err != nil {
		return errors.Trace(err)
	}
	return s.comesBack(ctx, database, func() error { return syscall.Kill(pid, syscall.SIGKILL) })
}

// comesBack does something to an operator, and waits until another one has taken
// its place and has logged in with the same password.
func (s *stage) comesBack(ctx context.Context, app string, do func() error) error {
	old, logins := s.operators[app], s.last.application(app).Operator.Logins
	if err := do(); err != nil {
		return errors.Trace(err)
	}
	if err := s.until(ctx, func(v *view) error {
		if v.application(app).Operator.Logins == logins {
			return errors.Errorf("%s has not logged in again", app)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.expectActive(ctx, app); err != nil {
		return err
	}
	if s.operators[app] == old {
		return errors.Errorf("%s has the same operator", app)
	}
	return s.samePassword(ctx, app)
}

func (s *stage) keepDying(ctx context.Context) error {
	if err := s.write("applications/"+cache+"/application.yaml", "life: dying\n"); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error { return wantLife(v, cache, "dying") }); err != nil {
		return err
	}
	return s.stay(ctx, cache)
}

func wantLife(v *view, app, life string) error {
	if got := v.application(app).Life; got != life {
		return errors.Errorf("%s is %q, not %q", app, got, life)
	}
	return nil
}

// stay waits for another sign of life of operators that must not end.
func (s *stage) stay(ctx context.Context, apps ...string) error {
	since := time.Now()
	return s.until(ctx, func(v *view) error {
		for _, app := range apps {
			if err := s.sameOperator(ctx, app); err != nil {
				return err
			}
			switch a := v.application(app); {
			case v.progress(app).State != settled:
				return errors.Errorf("%s is %s", app, v.progress(app).State)
			case a.Operator.Status != "active" || !a.Operator.LastSeen.After(since):
				return errors.Errorf("%s has not been heard of since", app)
			}
		}
		return nil
	})
}

func (s *stage) removeDead(ctx context.Context) error {
	if err := s.write("applications/"+forge+"/application.yaml", "life: dead\n"); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		if err := wantLife(v, forge, "dead"); err != nil {
			return err
		}
		return s.home.empty(ctx, forge)
	}); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.dir, "applications", forge)); err != nil {
		return errors.Trace(err)
	}
	if err := s.until(ctx, func(v *view) error {
		if state := v.progress(forge).State; state != settled {
			return errors.Errorf("%s is %s", forge, state)
		}
		return wantLife(v, forge, "")
	}); err != nil {
		return err
	}
	return s.stay(ctx, cache)
}

// living are the applications that have an operator from here on.
func living() []string { return []string{database, cache, metrics} }

func (s *stage) killAgent(ctx context.Context) error {
	// It ends with an error, since it was killed.
	_ = s.signalAgent(ctx, syscall.SIGKILL)
	for _, id := range []string{firstBox, secondBox} {
		if err := s.sameBox(ctx, id); err != nil {
			return errors.Annotate(err, "after the agent was killed")
		}
	}
	if err := s.adopt(ctx, s.startAgent); err != nil {
		return err
	}
	return s.boxesAreAdopted(ctx)
}

// adopt starts an agent where there was another, and checks that nothing happens to
// the operators.
func (s *stage) adopt(ctx context.Context, start func() error) error {
	for _, app := range living() {
		if err := s.sameOperator(ctx, app); err != nil {
			return errors.Annotate(err, "without an agent")
		}
	}
	if err := start(); err != nil {
		return err
	}
	for _, app := range living() {
		old := s.operators[app]
		// A new agent knows nobody: a log-in in its records is a new one.
		if err := s.expectActive(ctx, app); err != nil {
			return err
		}
		if s.operators[app] != old {
			return errors.Errorf("%s was started again, not adopted", app)
		}
		if err := s.samePassword(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) malform(ctx context.Context) error {
	if err := s.deploy(broken, alive+"replicas: 3\n", v1(broken), ""); err != nil {
		return err
	}
	if err := s.deploy(proxy, alive, v1(proxy), ""); err != nil {
		return err
	}
	if err := s.write(containerPath(brokenBox), alive+"replicas: 3\n"); err != nil {
		return err
	}
	const want = "applications/broken/application.yaml:2: replicas: unknown key"
	if err := s.until(ctx, func(v *view) error {
		for _, want := range []string{want, "containers/0-box-2.yaml:2: replicas: unknown key"} {
			if !strings.Contains(strings.Join(v.problems(), "\n"), want) {
				return errors.Errorf("the report has no problem %q", want)
			}
		}
		if p := v.progress(broken); p.State != "failed" || !strings.Contains(p.Error, want) {
			return errors.Errorf("%s is %s", broken, p.State)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.expectActive(ctx, proxy); err != nil {
		return err
	}
	// Mended, they come up too.
	if err := s.write(containerPath(brokenBox), alive); err != nil {
		return err
	}
	if err := s.expectBox(ctx, brokenBox); err != nil {
		return err
	}
	if err := s.write("applications/"+broken+"/application.yaml", alive+"version: 2.9.49\n"); err != nil {
		return err
	}
	return s.expectActive(ctx, broken)
}

func (s *stage) keepSecrets(ctx context.Context) error {
	for _, app := range []string{proxy, broken} {
		c, err := s.readCredentials(ctx, app)
		if err != nil {
			return err
		}
		s.keys[app] = c
	}
	return s.findSecrets(ctx)
}

func (s *stage) stop(ctx context.Context) error {
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	operators, err := s.home.processes()
	if err != nil {
		return err
	}
	if len(operators) > 0 {
		return errors.Errorf("%d operators are still there", len(operators))
	}
	boxes, err := boxProcesses(s.boxesDir())
	if err != nil {
		return err
	}
	for name := range boxes {
		return errors.Errorf("the box %s is still there", name)
	}
	return nil
}
