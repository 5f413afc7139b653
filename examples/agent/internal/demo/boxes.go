package demo

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/box"
	"github.com/sutler-dev/sutler/examples/agent/internal/model"
)

// containerPath is where the model has the container's file, and containerFile
// the file's name.
func containerPath(id string) string { return model.ContainerFile(id) }
func containerFile(id string) string { return filepath.Base(containerPath(id)) }

// refuseForeign asks for a container that cannot be had, and looks at everybody
// else.
func (s *stage) refuseForeign(ctx context.Context) error {
	if err := s.write(containerPath(foreign), alive); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		c := v.container(foreign)
		switch {
		case c.State != "error":
			return errors.Errorf("%s is %q", foreign, c.State)
		case !strings.Contains(c.Message, "no back end for zone"):
			return errors.Errorf("the status of %s does not say why: %q", foreign, c.Message)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.stay(ctx, ours()...); err != nil {
		return err
	}
	if _, err := os.Stat(s.boxesDir()); !os.IsNotExist(err) {
		return errors.Errorf("the machine was prepared for boxes, of which nobody asked for one (%v)", err)
	}
	return nil
}

func (s *stage) prepareMachine(ctx context.Context) error {
	if err := s.write(containerPath(firstBox), alive+"user-data: "+s.userData+"\n"); err != nil {
		return err
	}
	if err := s.expectBox(ctx, firstBox); err != nil {
		return err
	}
	var err error
	s.prepared, err = s.preparation()
	return err
}

// preparation is what is left of how the machine was prepared; it is another
// text each time that it is.
func (s *stage) preparation() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.boxesDir(), "prepared.yaml"))
	return string(data), errors.Trace(err)
}

// preparedOnce checks that it was not done again.
func (s *stage) preparedOnce() error {
	now, err := s.preparation()
	if err == nil && now != s.prepared {
		err = errors.New("the machine was prepared again")
	}
	return err
}

func (s *stage) addBox(ctx context.Context) error {
	if err := s.write(containerPath(secondBox), alive+"constraints:\n  cores: 1\n"); err != nil {
		return err
	}
	if err := s.expectBox(ctx, secondBox); err != nil {
		return err
	}
	if s.last.container(firstBox).Addresses[0] == s.last.container(secondBox).Addresses[0] {
		return errors.New("both boxes have one address")
	}
	if err := s.sameBox(ctx, firstBox); err != nil {
		return err
	}
	return s.preparedOnce()
}

// expectBox waits until the container is said to run, and then asks it. Its pid
// is noted.
func (s *stage) expectBox(ctx context.Context, id string) error {
	if err := s.until(ctx, func(v *view) error {
		switch c := v.container(id); {
		case c.State != "running" || c.Instance == "":
			return errors.Errorf("%s is %q (%s)", id, c.State, c.Message)
		case len(c.Addresses) != 1:
			return errors.Errorf("%s has the addresses %v", id, c.Addresses)
		default:
			_, err := netip.ParsePrefix(c.Addresses[0])
			return errors.Trace(err)
		}
	}); err != nil {
		return err
	}
	pid, err := s.boxProcess(ctx, id)
	s.pids[id] = pid
	return err
}

// boxProcess returns the pid of the container's box, of which there must be
// exactly one, and which must say that it is that.
func (s *stage) boxProcess(ctx context.Context, id string) (int, error) {
	name := s.last.container(id).Instance
	found, err := boxProcesses(s.boxesDir())
	if err != nil {
		return 0, err
	}
	if len(found[name]) != 1 {
		return 0, errors.Errorf("%s has %d processes, want one", id, len(found[name]))
	}
	answer, err := box.Ask(ctx, filepath.Join(s.boxesDir(), name))
	if err != nil {
		return 0, errors.Annotatef(err, "asking %s", id)
	}
	if pid := found[name][0]; answer.Container != id || answer.PID != pid {
		return 0, errors.Errorf("process %d of %s says that it is %s, %d", pid, id, answer.Container, answer.PID)
	}
	return answer.PID, nil
}

// sameBox checks that the box is the one that it was before.
func (s *stage) sameBox(ctx context.Context, id string) error {
	pid, err := s.boxProcess(ctx, id)
	if err == nil && pid != s.pids[id] {
		err = errors.Errorf("%s has another process, %d, than before, %d", id, pid, s.pids[id])
	}
	return err
}

// boxesAreAdopted waits until the new agent has looked after boxes, and checks
// that it let them be.
func (s *stage) boxesAreAdopted(ctx context.Context) error {
	if err := s.until(ctx, func(v *view) error {
		p := v.Manifolds.ContainerSetup.Report.Provisioners.Workers["box-provisioner"]
		if p.Report.Instances.Total != 2 || p.Report.Totals["settled"] != 2 {
			return errors.Errorf("%d boxes are listed and %d settled, want two", p.Report.Instances.Total, p.Report.Totals["settled"])
		}
		return nil
	}); err != nil {
		return err
	}
	for _, id := range []string{firstBox, secondBox} {
		if err := s.sameBox(ctx, id); err != nil {
			return errors.Annotate(err, "adoption")
		}
	}
	return s.preparedOnce()
}

func (s *stage) removeBox(ctx context.Context) error {
	name := s.last.container(secondBox).Instance
	if err := s.write(containerPath(secondBox), "life: dead\n"); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		if c := v.container(secondBox); c.Life != "" {
			return errors.Errorf("%s is still there, %s", secondBox, c.Life)
		}
		return nil
	}); err != nil {
		return err
	}
	found, err := boxProcesses(s.boxesDir())
	switch {
	case err != nil:
		return err
	case len(found[name]) > 0:
		return errors.Errorf("%s has a process", secondBox)
	}
	for path, there := range map[string]bool{
		filepath.Join(s.boxesDir(), name):                                  false,
		filepath.Join(s.dir, filepath.FromSlash(containerPath(secondBox))): false,
		filepath.Join(s.stateDir(), "removed", containerFile(secondBox)):   true,
	} {
		if _, err := os.Stat(path); (err == nil) != there {
			return errors.Errorf("%s: want it there: %v", path, there)
		}
	}
	return s.sameBox(ctx, firstBox)
}
