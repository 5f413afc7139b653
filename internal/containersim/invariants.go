package containersim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// unsettled returns what is not (yet) as it should be in the end, one line
// each: nil when all is well. A container that was given up may be so if
// errorsAllowed says that nobody has asked again since the faults stopped.
func (w *World) unsettled(errorsAllowed bool) (wrong []string) {
	s := w.current()
	if s == nil {
		return []string{"no agent runs"}
	}
	known := w.known()
	wanted := make(map[facade.ContainerType]bool)
	counts := map[string]int{}
	report := s.worker.Report()
	for _, c := range known {
		life := w.machine.Life(c.ID)
		wanted[c.Type] = wanted[c.Type] || life == facade.Alive || life == facade.Dying
		for _, what := range w.wrongWith(c, life, report, errorsAllowed) {
			wrong = append(wrong, c.ID+": "+what)
		}
		switch {
		case !w.canHave(c.Type):
		case life == facade.Alive && c.lost:
			counts[string(c.Type)+" failed"]++
		case life == facade.Alive && w.machine.Status(c.ID).State == facade.ContainerError:
			counts[string(c.Type)+" error"]++
		}
	}
	for _, t := range []facade.ContainerType{lxd, kvm} {
		switch phase := at(report, "types", string(t), "phase"); phase {
		case "ready", "idle", "refused":
		default:
			wrong = append(wrong, fmt.Sprintf("%s: its phase is %v", t, phase))
		}
		if w.canHave(t) {
			wrong = append(wrong, w.wrongType(t, wanted[t], report, counts)...)
		}
	}
	return wrong
}

// wrongWith judges one container.
func (w *World) wrongWith(c Container, life facade.Life, report map[string]any, errorsAllowed bool) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	instance, there := w.instance(c.ID)
	recorded := w.machine.InstanceInfo(c.ID).InstanceID
	status := w.machine.Status(c.ID)
	switch {
	case c.Type == "":
		if len(w.machine.Statuses(c.ID)) > 0 {
			say("is none of ours, and its status was set: %+v", status)
		}
	case !w.canHave(c.Type):
		if there {
			say("cannot be had, and has an instance")
		}
		// Whoever asks when everything else is prepared is not heard.
		if life == facade.Alive && report["watching"] == true &&
			(status.State != facade.ContainerError || !strings.Contains(status.Message, "cannot be had")) {
			say("cannot be had, and its status is %s %q", status.State, status.Message)
		}
	case life == facade.Alive && c.lost:
		if status.State != facade.ContainerError || there {
			say("its instance was lost, and its status is %s %q; there is an instance: %t", status.State, status.Message, there)
		}
	case life == facade.Alive && errorsAllowed && status.State == facade.ContainerError && c.givenUp:
	case life == facade.Alive:
		return w.wrongLiving(c, there && instance.Running, recorded, status)
	case life == facade.Dying:
		if recorded != "" && !c.lost && !there {
			say("is dying, and its instance is gone")
		}
	case life == facade.Dead:
		say("is dead, and not marked for removal")
	case life == "":
		return w.wrongGone(c, there, at(report, "types", string(c.Type), "phase") == "ready")
	}
	return wrong
}

// wrongLiving judges a living container that is to run.
func (w *World) wrongLiving(c Container, running bool, recorded string, status fakes.ContainerStatus) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !running {
		say("does not run; its status is %s %q", status.State, status.Message)
	}
	if recorded != string(fakes.InstanceID(c.ID)) {
		say("is recorded with instance %q", recorded)
	}
	if status.State != facade.ContainerRunning || status.Message != "" {
		say("its status is %s %q", status.State, status.Message)
	}
	if n := w.host.Starts(c.ID); n != 1 {
		say("was started %d times", n)
	}
	published, _ := w.machine.Network()
	for _, device := range c.devices {
		if n := w.host.Bridgings(device); n != 1 {
			say("its device %s was bridged %d times", device, n)
		}
		if !slices.ContainsFunc(published, func(i facade.NetworkInterface) bool {
			return i.Name == device && i.Parent == "br-"+device
		}) {
			say("its device %s is not bridged as far as the controller knows", device)
		}
	}
	return wrong
}

// wrongGone judges a container that the controller does not know any more, of a
// type that a provisioner looks after, or none.
func (w *World) wrongGone(c Container, there, lookedAfter bool) (wrong []string) {
	mode, always := w.mode()
	switch {
	case there && mode.Unknown() && lookedAfter:
		wrong = append(wrong, "is gone, and still has an instance")
	case there && mode.Dead() && always && c.died:
		wrong = append(wrong, "was dead, and still has an instance")
	case !there && mode.Dead() && always && c.died && slices.Contains(w.machine.Addresses(), c.ID):
		wrong = append(wrong, "was dead, and still has addresses")
	}
	return wrong
}

// wrongType judges what was done to the host for a type, if it is wanted, and
// what the report says.
func (w *World) wrongType(t facade.ContainerType, wanted bool, report map[string]any, counts map[string]int) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, string(t)+": "+fmt.Sprintf(format, args...))
	}
	if n := w.host.Initialisations(t); wanted && n != 1 {
		say("the host was prepared %d times", n)
	}
	if phase := at(report, "types", string(t), "phase"); wanted && phase != "ready" {
		say("the report says that its phase is %v", phase)
	}
	totals, ok := at(report, "provisioners", "workers", string(t)+"-provisioner", "report", "totals").(map[string]any)
	if !ok {
		if wanted {
			say("the report has no provisioner")
		}
		return wrong
	}
	want := map[string]int{
		"queued": 0, "running": 0, "waiting": 0, "starting": 0, "stopping": 0,
		"failed": counts[string(t)+" failed"], "error": counts[string(t)+" error"],
	}
	for _, state := range slices.Sorted(maps.Keys(want)) {
		if totals[state] != want[state] {
			say("the report says that %v are %s, not %d", totals[state], state, want[state])
		}
	}
	return wrong
}

// at follows keys into a report.
func at(report any, keys ...string) any {
	for _, key := range keys {
		m, _ := report.(map[string]any)
		report = m[key]
	}
	return report
}

// current returns the session that runs, nil if none does.
func (w *World) current() *Session {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range slices.Backward(w.sessions) {
		if !s.over() {
			return s
		}
	}
	return nil
}

// Finish ends the workers that still run, and returns which rules were broken
// at some instant of the story.
func (w *World) Finish() []string {
	w.mu.Lock()
	sessions := slices.Clone(w.sessions)
	w.mu.Unlock()
	for _, s := range sessions {
		w.print(fmt.Sprint(s.worker.Report()))
		if !s.over() {
			s.Kill()
		}
		w.print(fmt.Sprint(s.worker.Report()))
	}

	w.mu.Lock()
	all := slices.Clone(w.broken)
	w.mu.Unlock()
	all = append(all, w.host.Violations()...)
	all = append(all, w.machine.Violations()...)
	if err := w.host.Lock().CheckFree(); err != nil {
		all = append(all, err.Error())
	}
	for _, t := range []facade.ContainerType{lxd, kvm} {
		if n := w.host.Initialisations(t); n > 1 {
			all = append(all, fmt.Sprintf("the host was prepared for %s %d times", t, n))
		}
	}
	for _, device := range []string{"eth0", "eth1"} {
		if n := w.host.Bridgings(device); n > 1 {
			all = append(all, fmt.Sprintf("device %s was bridged %d times", device, n))
		}
	}
	for _, s := range sessions {
		all = append(all, s.wrongInTheWhole()...)
	}
	return append(all, w.leaks()...)
}

// lastWords is for how long after it was killed an agent may still say what it
// has done to the host.
const lastWords = killTime / 2

// wrongInTheWhole judges all that an agent did.
func (s *Session) wrongInTheWhole() (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, "agent "+s.name+": "+fmt.Sprintf(format, args...))
	}
	var foreign []string
	for _, c := range s.world.known() {
		if c.Type == "" {
			foreign = append(foreign, c.ID)
		}
	}
	for _, c := range s.faults.Calls() {
		switch {
		case c.End.IsZero(), c.End.After(s.end):
			say("%s outlived it", c)
		case s.ends && c.Start.After(s.killedAt.Add(lastWords)):
			say("%s began after it was killed", c)
		}
		for _, key := range append(c.Keys, c.Key) {
			if key != "" && slices.Contains(foreign, key) {
				say("%s is about what is none of ours", c)
			}
		}
	}
	return wrong
}

// isWrite tells whether a method changes something.
func isWrite(method string) bool {
	switch method {
	case "SetContainerStatus", "SetHostMachineNetworkConfig", "SetInstanceInfo", "MarkForRemoval",
		"PrepareContainerInterfaceInfo", "ReleaseContainerAddresses",
		"Initialise", "Bridge", "StartInstance", "StopInstances":
		return true
	}
	return false
}
