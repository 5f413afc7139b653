package demo

import (
	"context"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// lxdTimeout is that of a step with LXD.
const lxdTimeout = 2 * time.Minute

// The containers of the story that is told of LXD.
const (
	firstLXD   = "0/lxd/0" // lives until the end
	secondLXD  = "0/lxd/1" // will be dead
	unknownLXD = "0/lxd/2" // has an image that is not there
	cutLXD     = "0/lxd/3" // the agent is killed while it makes it
	lateLXD    = "0/lxd/4" // LXD is killed while it makes it
)

// tinyImage is the one that the test bed's LXD has.
const tinyImage = "tiny"

// lxdStage is a stage with containers of LXD.
type lxdStage struct {
	*stage
	*lxdBed

	before looks
	taken  []netip.Prefix // of the machine, before
	plan   string
	was    map[string]instance // by the instance's name
}

// lxdHome is where operators would live, of which there are none, and where LXD's
// secrets might be.
type lxdHome struct {
	machine
	*lxdBed
}

// lxdStory is told of LXD.
func lxdStory(b *lxdBed) []step {
	s := &lxdStage{lxdBed: b, was: map[string]instance{}}
	on := func(play func(*lxdStage, context.Context) error) func(*stage, context.Context) error {
		return func(stage *stage, ctx context.Context) error {
			s.stage = stage
			return play(s, ctx)
		}
	}
	return []step{
		{"'host plan' tells what is to be done to this machine, and does nothing", on((*lxdStage).planHost)},
		{"two containers: LXD is set up once, as planned, and both run", on((*lxdStage).startTwo)},
		{"both have addresses of their own on the bridge, answer, and ran their user data", on((*lxdStage).answer)},
		{"one of an image that is not there fails alone; its status says why in a line", on((*lxdStage).failUnknown)},
		{"a dead one is removed, and the other one stays", on((*lxdStage).removeOne)},
		{"kill -9 of the agent while one is made: the next agent finishes it, and starts nothing twice", on((*lxdStage).killAgent)},
		{"kill -9 of LXD's daemon while one is made: containers go on, and the agent goes on with it", on((*lxdStage).killDaemon)},
		{"no secret is in a log, a report, an argument or an environment", (*stage).findSecrets},
		{"'host undo' does nothing while the agent runs, or a container; SIGTERM leaves containers", on((*lxdStage).refuseUndo)},
		{"all are dead: no instance is left", on((*lxdStage).removeAll)},
		{"'host undo': the machine looks as it was found", on((*lxdStage).undoHost)},
	}
}

// planned are the steps for an LXD as just after its installation.
var planned = regexp.MustCompile(`^1\. make the storage pool default \(dir\): .*
2\. make the bridge lxdbr0 \(([0-9./]+)\): .*
3\. add the device root to the default profile: .*
4\. add the device eth0 to the default profile: .*
$`)

func (s *lxdStage) planHost(ctx context.Context) (err error) {
	if err := s.write("model.yaml", settings); err != nil {
		return err
	}
	if err := s.write("machine.yaml", "id: 0\ncontainers: [lxd]\n"); err != nil {
		return err
	}
	if s.before, err = s.machineLooks(ctx); err != nil {
		return err
	}
	if s.taken, err = s.prefixes(ctx); err != nil {
		return err
	}
	if s.plan, err = s.host(ctx, "plan"); err != nil {
		return err
	}
	if !planned.MatchString(s.plan) {
		return errors.Errorf("the plan is %q", s.plan)
	}
	for line := range strings.Lines(s.plan) {
		s.screen.say("      %s", strings.TrimRight(line, "\n"))
	}
	return s.asFound(ctx)
}

// asFound checks that the machine looks as it was found.
func (s *lxdStage) asFound(ctx context.Context) error {
	now, err := s.machineLooks(ctx)
	if err != nil {
		return err
	}
	return s.before.same(now)
}

// prefixes are the subnets of this machine's addresses.
func (s *lxdStage) prefixes(ctx context.Context) ([]netip.Prefix, error) {
	text, err := output(ctx, "ip", "-o", "-4", "address", "show")
	if err != nil {
		return nil, err
	}
	var all []netip.Prefix
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 3 {
			prefix, err := netip.ParsePrefix(f[3])
			if err != nil {
				return nil, errors.Trace(err)
			}
			all = append(all, prefix)
		}
	}
	return all, nil
}

// container is what the story asks for: with user data that is a secret, and that leaves
// a trace of having been run.
func (s *lxdStage) container(image string) string {
	return alive + "image: " + image + "\nuser-data: |\n  #!/bin/sh\n  echo " + s.userData + " >/root/told\n"
}

// ask asks for a container.
func (s *lxdStage) ask(id, image string) error {
	return s.write(containerPath(id), s.container(image))
}

// expectLXD waits until exactly these containers run, by the agent and by LXD. What there
// is of their instances is noted; those that were noted before have to be the same.
func (s *lxdStage) expectLXD(ctx context.Context, ids ...string) error {
	if err := s.until(ctx, func(v *view) error {
		for _, id := range ids {
			if c := v.container(id); c.State != "running" || c.Instance == "" {
				return errors.Errorf("%s is %q (%s)", id, c.State, c.Message)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return s.sameLXD(ctx, ids...)
}

// sameLXD checks that these and no others are there and run, and are what they were.
func (s *lxdStage) sameLXD(ctx context.Context, ids ...string) error {
	now, err := s.instances(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, id := range ids {
		name := s.last.container(id).Instance
		names = append(names, name)
		i, ok := now[name]
		if !ok || !i.running || !i.made {
			return errors.Errorf("the instance of %s is there: %v, and is %+v", id, ok, i)
		}
		if was, ok := s.was[name]; ok && was != i {
			return errors.Errorf("the instance of %s was %+v and is %+v", id, was, i)
		}
	}
	slices.Sort(names)
	if there := slices.Sorted(maps.Keys(now)); !slices.Equal(there, names) {
		return errors.Errorf("LXD has %v, want %v", there, names)
	}
	s.was = now
	return nil
}

func (s *lxdStage) startTwo(ctx context.Context) error {
	for _, id := range []string{firstLXD, secondLXD} {
		if err := s.ask(id, tinyImage); err != nil {
			return err
		}
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	if err := s.expectLXD(ctx, firstLXD, secondLXD); err != nil {
		return err
	}
	return s.setUpOnce()
}

// setUpOnce checks that each step of the plan was done once.
func (s *lxdStage) setUpOnce() error {
	return s.doneOnce(s.plan, "preparing the host for LXD", filepath.Join("lxd", "lxd-host.json"))
}

func (s *lxdStage) answer(ctx context.Context) error {
	bridge, err := netip.ParsePrefix(planned.FindStringSubmatch(s.plan)[1])
	if err != nil {
		return errors.Trace(err)
	}
	for _, prefix := range s.taken {
		if prefix.Overlaps(bridge) {
			return errors.Errorf("the bridge has %s, and the machine had %s", bridge, prefix)
		}
	}
	first, err := s.address(ctx, firstLXD, bridge)
	if err != nil {
		return err
	}
	second, err := s.address(ctx, secondLXD, bridge)
	if err != nil {
		return err
	}
	if first == second {
		return errors.Errorf("both have %s", first)
	}
	// And each other.
	if _, err := s.in(ctx, s.last.container(firstLXD).Instance, "ping", "-c", "1", "-W", "5", second); err != nil {
		return err
	}
	for _, id := range []string{firstLXD, secondLXD} {
		if err := s.ranUserData(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// address waits for the container's address, which is on the bridge, and knocks there.
func (s *lxdStage) address(ctx context.Context, id string, bridge netip.Prefix) (string, error) {
	var addresses []string
	if err := s.until(ctx, func(v *view) (err error) {
		addresses, err = s.addressesOn(ctx, v.container(id).Instance)
		if err == nil && len(addresses) != 1 {
			err = errors.Errorf("%s has the addresses %v", id, addresses)
		}
		return err
	}); err != nil {
		return "", err
	}
	addr, err := netip.ParseAddr(addresses[0])
	if err != nil {
		return "", errors.Trace(err)
	}
	if !bridge.Contains(addr) || addr == bridge.Addr() {
		return "", errors.Errorf("%s has %s, on a bridge that has %s", id, addr, bridge)
	}
	return addresses[0], errors.Annotatef(knock(ctx, addr), "knocking at %s", id)
}

// ranUserData checks what the user data left in the container.
func (s *lxdStage) ranUserData(ctx context.Context, id string) error {
	return s.until(ctx, func(v *view) error {
		out, err := s.in(ctx, v.container(id).Instance, "cat", "/root/told")
		if err == nil && strings.TrimSpace(out) != s.userData {
			err = errors.Errorf("%s did not run its user data", id)
		}
		return err
	})
}

func (s *lxdStage) failUnknown(ctx context.Context) error {
	const image = "nobody-has-this"
	if err := s.ask(unknownLXD, image); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		switch c := v.container(unknownLXD); {
		case !strings.Contains(c.Message, image) || !strings.Contains(c.Message, "not found"):
			return errors.Errorf("the status of %s does not say why: %q", unknownLXD, c.Message)
		case strings.Contains(c.Message, "\n"):
			return errors.Errorf("the status of %s has several lines: %q", unknownLXD, c.Message)
		case c.State == "running" || c.Instance != "":
			return errors.Errorf("%s is %s", unknownLXD, c.State)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.sameLXD(ctx, firstLXD, secondLXD); err != nil {
		return err
	}
	return s.remove(ctx, unknownLXD)
}

func (s *lxdStage) removeOne(ctx context.Context) error {
	delete(s.was, s.last.container(secondLXD).Instance)
	if err := s.remove(ctx, secondLXD); err != nil {
		return err
	}
	return s.sameLXD(ctx, firstLXD)
}

// underWay asks for a container, and returns as soon as LXD has something of it.
func (s *lxdStage) underWay(ctx context.Context, id string) error {
	if err := s.ask(id, tinyImage); err != nil {
		return err
	}
	for before := len(s.was); ; time.Sleep(2 * time.Millisecond) {
		now, err := s.instances(ctx)
		switch {
		case err != nil:
			return err
		case len(now) > before:
			return nil
		case ctx.Err() != nil:
			return errors.Annotatef(context.Cause(ctx), "nothing of %s", id)
		}
	}
}

func (s *lxdStage) killAgent(ctx context.Context) error {
	if err := s.underWay(ctx, cutLXD); err != nil {
		return err
	}
	// It ends with an error, since it was killed.
	_ = s.signalAgent(ctx, syscall.SIGKILL)
	now, err := s.instances(ctx)
	if err != nil {
		return err
	}
	for name, was := range s.was {
		if now[name] != was {
			return errors.Errorf("without an agent %s was %+v and is %+v", name, was, now[name])
		}
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	if err := s.expectLXD(ctx, firstLXD, cutLXD); err != nil {
		return err
	}
	if err := s.ranUserData(ctx, cutLXD); err != nil {
		return err
	}
	return s.setUpOnce()
}

func (s *lxdStage) killDaemon(ctx context.Context) error {
	if err := s.underWay(ctx, lateLXD); err != nil {
		return err
	}
	pid, err := s.daemon(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return errors.Trace(err)
	}
	for name, i := range s.was {
		if err := syscall.Kill(i.pid, 0); err != nil {
			return errors.Annotatef(err, "without LXD, %s", name)
		}
	}
	if err := s.expectLXD(ctx, firstLXD, cutLXD, lateLXD); err != nil {
		return err
	}
	if now, err := s.daemon(ctx); err != nil || now == pid {
		return errors.Errorf("LXD is process %d, as before (%v)", now, err)
	}
	if err := s.ranUserData(ctx, lateLXD); err != nil {
		return err
	}
	return s.setUpOnce()
}

// search goes through LXD's logs, and the arguments and environment of everybody.
func (h lxdHome) search(_ context.Context, check func(where string, data []byte) error) error {
	for _, dir := range []string{filepath.Join(h.root, "logs"), filepath.Join(filepath.Dir(h.root), "log")} {
		if err := searchFiles(dir, nil, check); err != nil {
			return err
		}
	}
	return searchProcesses(check)
}

func (s *lxdStage) refuseUndo(ctx context.Context) error {
	living := []string{firstLXD, cutLXD, lateLXD}
	if _, err := s.host(ctx, "undo"); err == nil || !strings.Contains(err.Error(), "an agent runs on") {
		return errors.Errorf("undo beside an agent: %v", err)
	}
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	if _, err := s.host(ctx, "undo"); err == nil || !strings.Contains(err.Error(), s.last.container(firstLXD).Instance) {
		return errors.Errorf("undo beside containers: %v", err)
	}
	if err := s.sameLXD(ctx, living...); err != nil {
		return errors.Annotate(err, "without an agent")
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	if err := s.expectLXD(ctx, living...); err != nil {
		return err
	}
	return s.setUpOnce()
}

func (s *lxdStage) removeAll(ctx context.Context) error {
	clear(s.was)
	if err := s.remove(ctx, firstLXD, cutLXD, lateLXD); err != nil {
		return err
	}
	return s.sameLXD(ctx)
}

func (s *lxdStage) undoHost(ctx context.Context) error {
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	if _, err := s.host(ctx, "undo"); err != nil {
		return err
	}
	if err := s.asFound(ctx); err != nil {
		return err
	}
	// As if nothing had been.
	plan, err := s.host(ctx, "plan")
	if err == nil && plan != s.plan {
		err = errors.Errorf("the plan was %q and is %q", s.plan, plan)
	}
	return err
}
