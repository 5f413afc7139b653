package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
)

// kvmTimeout is that of a step with virtual machines, which boot in software.
const kvmTimeout = 3 * time.Minute

// The virtual machines of the story that is told of KVM.
const (
	firstKVM = "0/kvm/0" // lives until the end
	badKVM   = "0/kvm/1" // has an image with another checksum
	cutKVM   = "0/kvm/2" // the agent is killed while it makes it
)

// emulate is the flag by which there are virtual machines without a processor for them.
const emulate = "--kvm-emulation"

// kvmStage is a stage with virtual machines.
type kvmStage struct {
	*stage
	*kvmBed

	before looks
	plan   string
	was    map[string]guest // by the instance's name
}

// kvmHome is where operators would live, of which there are none, and where libvirt's
// secrets might be.
type kvmHome struct {
	machine
	*kvmBed
}

func (kvmHome) flags() []string { return []string{emulate} }

// kvmStory is told of KVM.
func kvmStory(b *kvmBed) []step {
	s := &kvmStage{kvmBed: b, was: map[string]guest{}}
	on := func(play func(*kvmStage, context.Context) error) func(*stage, context.Context) error {
		return func(stage *stage, ctx context.Context) error {
			s.stage = stage
			return play(s, ctx)
		}
	}
	return []step{
		{"'host plan' tells what is to be done to this machine, and does nothing", on((*kvmStage).planHost)},
		{"a virtual machine: libvirt is set up once, as planned, and it boots", on((*kvmStage).startFirst)},
		{"it has an address by libvirt's leases, answers there, and ran its user data", on((*kvmStage).answer)},
		{"one of an image with another checksum fails alone; its status says why in a line", on((*kvmStage).failChecksum)},
		{"kill -9 of the agent while one is made: the next agent finishes it, and starts nothing twice", on((*kvmStage).killAgent)},
		{"kill -9 of libvirtd: virtual machines go on and are adopted", on((*kvmStage).killDaemon)},
		{"no secret is in a log, a report, an argument or an environment", (*stage).findSecrets},
		{"'host undo' does nothing while the agent runs, and stops at what a machine uses; SIGTERM leaves machines", on((*kvmStage).refuseUndo)},
		{"a dead one is shut down by its power button and removed, and the other one stays", on((*kvmStage).removeOne)},
		{"all are dead: no domain and no disk is left", on((*kvmStage).removeAll)},
		{"'host undo': the machine looks as it was found", on((*kvmStage).undoHost)},
	}
}

// kvmPlan are the steps for a libvirt as just after its installation.
var kvmPlan = regexp.MustCompile(`^1\. define the storage pool sutler \(.*\): .*
2\. make the folder of the storage pool sutler: .*
3\. start the storage pool sutler: .*
4\. have the storage pool sutler start with the host: .*
5\. start the network default: .*
6\. have the network default start with the host: .*
$`)

func (s *kvmStage) planHost(ctx context.Context) (err error) {
	if err := s.write("model.yaml", settings); err != nil {
		return err
	}
	if err := s.write("machine.yaml", "id: 0\ncontainers: [kvm]\n"); err != nil {
		return err
	}
	if s.before, err = s.machineLooks(ctx); err != nil {
		return err
	}
	if _, err := s.host(ctx, "plan"); err == nil || !strings.Contains(err.Error(), "emulation by software") {
		return errors.Errorf("a plan without leave to emulate: %v", err)
	}
	if s.plan, err = s.host(ctx, "plan", emulate); err != nil {
		return err
	}
	if !kvmPlan.MatchString(s.plan) {
		return errors.Errorf("the plan is %q", s.plan)
	}
	for line := range strings.Lines(s.plan) {
		s.screen.say("      %s", strings.TrimRight(line, "\n"))
	}
	return s.asFound(ctx)
}

// asFound checks that the machine looks as it was found.
func (s *kvmStage) asFound(ctx context.Context) error {
	now, err := s.machineLooks(ctx)
	if err != nil {
		return err
	}
	return s.before.same(now)
}

// ask asks for a virtual machine: with user data that is a secret, and that tells that it
// was run by a digest.
func (s *kvmStage) ask(id, sum string) error {
	return s.write(containerPath(id), alive+"image: "+s.disk+"\nimage-sha256: "+sum+
		"\nconstraints: {memory: 192, root-disk: 64}\nuser-data: |\n  #!/bin/sh\n"+
		"  echo \"told: $(printf %s "+s.userData+" | sha256sum | cut -d' ' -f1)\"\n")
}

// expect waits until exactly these run, by the agent and by libvirt, and have booted. What
// there is of their domains is noted; those that were noted before have to be the same.
func (s *kvmStage) expect(ctx context.Context, ids ...string) error {
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
	if err := s.same(ctx, ids...); err != nil {
		return err
	}
	return s.until(ctx, func(*view) error { return s.booted(ctx, ids...) })
}

// adopted waits until a new agent has looked after these, and checks that it let those be
// that were there.
func (s *kvmStage) adopted(ctx context.Context, ids ...string) error {
	if err := s.until(ctx, func(v *view) error {
		p := v.Manifolds.ContainerSetup.Report.Provisioners.Workers["kvm-provisioner"].Report
		if p.Totals["settled"] != len(ids) {
			return errors.Errorf("%d machines are settled, want %d", p.Totals["settled"], len(ids))
		}
		return nil
	}); err != nil {
		return err
	}
	return s.expect(ctx, ids...)
}

// same checks that these and no others are there and run, and are what they were.
func (s *kvmStage) same(ctx context.Context, ids ...string) error {
	now, err := s.guests(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, id := range ids {
		name := s.last.container(id).Instance
		names = append(names, name)
		g, ok := now[name]
		if !ok || !g.autostart || syscall.Kill(g.pid, 0) != nil || g.pid == 0 {
			return errors.Errorf("the domain of %s is there: %v, and is %+v", id, ok, g)
		}
		if was, ok := s.was[name]; ok && was != g {
			return errors.Errorf("the domain of %s was %+v and is %+v", id, was, g)
		}
	}
	slices.Sort(names)
	if there := slices.Sorted(maps.Keys(now)); !slices.Equal(there, names) {
		return errors.Errorf("libvirt has %v, want %v", there, names)
	}
	s.was = now
	return nil
}

// booted checks that each has booted, once, and knows its name, by its console.
func (s *kvmStage) booted(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		name := s.last.container(id).Instance
		f, err := s.filesOf(ctx, name)
		if err != nil {
			return err
		}
		if names, err := f.said("guest: hostname"); err != nil || !slices.Equal(names, []string{name}) {
			return errors.Errorf("%s told its name %q, %v", id, names, err)
		}
	}
	return nil
}

func (s *kvmStage) startFirst(ctx context.Context) error {
	if err := s.ask(firstKVM, s.sum); err != nil {
		return err
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	if err := s.expect(ctx, firstKVM); err != nil {
		return err
	}
	return s.setUpOnce()
}

// setUpOnce checks that each step of the plan was done once, but for those that were undone
// in between.
func (s *kvmStage) setUpOnce(again ...string) error {
	return s.doneOnce(s.plan, "preparing the host for KVM", filepath.Join("kvm", "kvm-host.json"), again...)
}

func (s *kvmStage) answer(ctx context.Context) error { return s.answers(ctx, firstKVM) }

// answers waits for the address that libvirt gave a virtual machine, which is the one that
// it has, knocks there, and sees that its user data was run.
func (s *kvmStage) answers(ctx context.Context, id string) error {
	name := s.last.container(id).Instance
	f, err := s.filesOf(ctx, name)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(s.userData))
	var addresses []string
	if err := s.until(ctx, func(*view) error {
		if addresses, err = s.addressesOn(ctx, name); err != nil {
			return err
		}
		if len(addresses) != 1 {
			return errors.Errorf("%s has the addresses %v", id, addresses)
		}
		own, err := f.said("guest: address")
		if err != nil || len(own) != 1 || !strings.HasPrefix(own[0], addresses[0]+" on ") {
			return errors.Errorf("%s has %s by libvirt, and itself %q, %v", id, addresses[0], own, err)
		}
		told, err := f.said("told:")
		if err != nil || !slices.Equal(told, []string{hex.EncodeToString(digest[:])}) {
			return errors.Errorf("%s did not run its user data: %q, %v", id, told, err)
		}
		return nil
	}); err != nil {
		return err
	}
	prefix, err := netip.ParsePrefix(addresses[0])
	if err != nil {
		return errors.Trace(err)
	}
	s.screen.say("      %s is at %s", name, prefix.Addr())
	return errors.Annotatef(knock(ctx, prefix.Addr()), "knocking at %s", id)
}

func (s *kvmStage) failChecksum(ctx context.Context) error {
	if err := s.ask(badKVM, strings.Repeat("0a", sha256.Size)); err != nil {
		return err
	}
	if err := s.until(ctx, func(v *view) error {
		switch c := v.container(badKVM); {
		case !strings.Contains(c.Message, "SHA256 "+s.sum):
			return errors.Errorf("the status of %s does not say why: %q", badKVM, c.Message)
		case strings.Contains(c.Message, "\n"):
			return errors.Errorf("the status of %s has several lines: %q", badKVM, c.Message)
		case c.State == "running" || c.Instance != "":
			return errors.Errorf("%s is %s", badKVM, c.State)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.same(ctx, firstKVM); err != nil {
		return err
	}
	return s.remove(ctx, badKVM)
}

// underWay asks for a virtual machine, and returns as soon as libvirt has something of it.
func (s *kvmStage) underWay(ctx context.Context, id string) error {
	if err := s.ask(id, s.sum); err != nil {
		return err
	}
	for ; ; time.Sleep(time.Millisecond) {
		defined, err := filepath.Glob("/etc/libvirt/qemu/*.xml")
		switch {
		case err != nil:
			return errors.Trace(err)
		case len(defined) > len(s.was):
			return nil
		case ctx.Err() != nil:
			return errors.Annotatef(context.Cause(ctx), "nothing of %s", id)
		}
	}
}

func (s *kvmStage) killAgent(ctx context.Context) error {
	if err := s.underWay(ctx, cutKVM); err != nil {
		return err
	}
	// It ends with an error, since it was killed.
	_ = s.signalAgent(ctx, syscall.SIGKILL)
	now, err := s.guests(ctx)
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
	if err := s.expect(ctx, firstKVM, cutKVM); err != nil {
		return err
	}
	if err := s.answers(ctx, cutKVM); err != nil {
		return err
	}
	return s.setUpOnce()
}

func (s *kvmStage) killDaemon(ctx context.Context) error {
	pid, err := s.daemon(ctx)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return errors.Trace(err)
	}
	for name, g := range s.was {
		if err := syscall.Kill(g.pid, 0); err != nil {
			return errors.Annotatef(err, "without libvirt, %s", name)
		}
	}
	if err := s.until(ctx, func(*view) error {
		now, err := s.daemon(ctx)
		if err == nil && now == pid {
			err = errors.Errorf("libvirt is process %d, as before", now)
		}
		return err
	}); err != nil {
		return err
	}
	if err := s.expect(ctx, firstKVM, cutKVM); err != nil {
		return err
	}
	return s.setUpOnce()
}

// search goes through libvirt's files, and the arguments and environment of everybody.
// What guests are told is on their seeds alone.
func (h kvmHome) search(ctx context.Context, check func(where string, data []byte) error) error {
	guests, err := h.guests(ctx)
	if err != nil {
		return err
	}
	var seeds []string
	for name := range guests {
		f, err := h.filesOf(ctx, name)
		if err != nil {
			return err
		}
		seeds = append(seeds, f.seed)
	}
	for _, dir := range []string{"/etc/libvirt", "/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt"} {
		if err := searchFiles(dir, seeds, check); err != nil {
			return err
		}
	}
	return searchProcesses(check)
}

func (s *kvmStage) refuseUndo(ctx context.Context) error {
	if _, err := s.host(ctx, "undo"); err == nil || !strings.Contains(err.Error(), "an agent runs on") {
		return errors.Errorf("undo beside an agent: %v", err)
	}
	if err := s.signalAgent(ctx, syscall.SIGTERM); err != nil {
		return errors.Annotate(err, "the agent's end")
	}
	if _, err := s.host(ctx, "undo"); err == nil || !strings.Contains(err.Error(), s.last.container(firstKVM).Instance) {
		return errors.Errorf("undo beside machines: %v", err)
	}
	if err := s.same(ctx, firstKVM, cutKVM); err != nil {
		return errors.Annotate(err, "without an agent")
	}
	if err := s.startAgent(); err != nil {
		return err
	}
	if err := s.adopted(ctx, firstKVM, cutKVM); err != nil {
		return err
	}
	// That it starts with the host is in use by nobody.
	return s.setUpOnce("have the network default start with the host")
}

func (s *kvmStage) removeOne(ctx context.Context) error {
	if err := s.shutDown(ctx, cutKVM); err != nil {
		return err
	}
	return s.same(ctx, firstKVM)
}

// shutDown has a virtual machine be dead, and checks what it said when its button was
// pressed.
func (s *kvmStage) shutDown(ctx context.Context, id string) error {
	name := s.last.container(id).Instance
	f, err := s.filesOf(ctx, name)
	if err != nil {
		return err
	}
	// It is read to its end once it is removed.
	console, err := os.Open(f.console)
	if err != nil {
		return errors.Trace(err)
	}
	defer console.Close()
	pid := s.was[name].pid
	delete(s.was, name)
	if err := s.remove(ctx, id); err != nil {
		return err
	}
	data, err := io.ReadAll(console)
	if err != nil {
		return errors.Trace(err)
	}
	if !bytes.Contains(data, []byte("guest: power button")) {
		return errors.Errorf("%s was switched off without having been asked", id)
	}
	log, err := os.ReadFile("/var/log/libvirt/qemu/" + name + ".log")
	if err != nil || !bytes.Contains(log, []byte("shutting down, reason=shutdown")) {
		return errors.Errorf("%s did not shut down by itself (%v)", id, err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		return errors.Errorf("%s is still process %d", id, pid)
	}
	return nil
}

func (s *kvmStage) removeAll(ctx context.Context) error {
	if err := s.shutDown(ctx, firstKVM); err != nil {
		return err
	}
	if err := s.same(ctx); err != nil {
		return err
	}
	left, err := filepath.Glob("/var/lib/libvirt/images/sutler/*")
	if err != nil {
		return errors.Trace(err)
	}
	for _, path := range left {
		// Images are shared, and go with the pool.
		if name := filepath.Base(path); !strings.HasPrefix(name, "base-") && name != ".lock" {
			return errors.Errorf("left is %s", path)
		}
	}
	return nil
}

func (s *kvmStage) undoHost(ctx context.Context) error {
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
	plan, err := s.host(ctx, "plan", emulate)
	if err == nil && plan != s.plan {
		err = errors.Errorf("the plan was %q and is %q", s.plan, plan)
	}
	return err
}
