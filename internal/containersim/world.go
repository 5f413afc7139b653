package containersim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// machineID is the machine of every world.
const machineID = "0"

// Types of containers. The last two are none that can be had: the machine
// supports zones, but the agent has no back end for them; jails it does not
// support.
const (
	lxd  = container.LXD
	kvm  = container.KVM
	zone = facade.ContainerType("zone")
	jail = facade.ContainerType("jail")
)

// Variant breaks the worker on purpose, from outside, to see whether that is
// found. The zero value breaks nothing.
type Variant struct {
	// Setup changes what the handler is made with.
	Setup func(config *containersetup.Config, s *Session)
	// Provisioner changes what a provisioner is made with.
	Provisioner func(config *containerprovisioner.Config, s *Session)
}

// Options are what a [World] is made by.
type Options struct {
	// Seed decides latencies and faults.
	Seed uint64
	// Zones makes the machine one that supports zones, for which there is no
	// back end. The handler then never has all that it may be asked for.
	Zones bool
	// Refused are types that the host turns out to be unable to have.
	Refused []facade.ContainerType
	// Quick makes calls about several containers take no time. It is for
	// worlds in which several containers of a type are looked at at one
	// instant: how they are joined into calls is not certain, and so must
	// not matter.
	Quick bool
	// Plain hides that the controller knows the harvest mode, so that the
	// worker goes by Harvest.
	Plain bool
	// Harvest is the harvest mode in the beginning.
	Harvest facade.HarvestMode
	// Concurrency is how many instances are started at once; the default, if
	// 0. With fewer than there are containers it is not certain whose turn it
	// is first.
	Concurrency int
	// MaxAttempts is how often it is tried to start a container; 10 by
	// default.
	MaxAttempts int
	// Variant is for worlds in which something is wrong.
	Variant Variant
}

// World is a machine with its controller and its host, and the agents that have
// run on it. Its methods are the hand of whoever tells the story; they never
// fail by a fault. It is safe for use by many goroutines.
type World struct {
	options Options
	clock   clock.Clock
	start   time.Time

	machine *fakes.Machine
	host    *fakes.Host
	log     *fakes.Log

	mu         sync.Mutex
	containers map[string]*Container
	harvest    facade.HarvestMode
	// changed tells that the harvest mode was another one before.
	changed  bool
	sessions []*Session
	events   []traced
	reached  []reached
	broken   []string // rules that were broken at some instant
	printed  []string // what was printed besides the log
}

// Container is what the story knows of one container.
type Container struct {
	ID   string
	Type facade.ContainerType // empty for what is no container of this machine

	// died tells that it was dead, and for the worker to have forgotten.
	died bool
	// lost tells that its recorded instance was taken away by others.
	lost bool
	// givenUp tells that the provisioner said that it starts it no more, and
	// nobody has asked for it since.
	givenUp bool
	// devices are to be bridged for it.
	devices []string
}

// NewWorld returns a machine without containers, on a host that is prepared for
// none. An instance takes a moment to start, and a host to be prepared.
func NewWorld(options Options) *World {
	if options.Harvest == "" {
		options.Harvest = facade.HarvestDestroyed
	}
	hand := fakes.NewFaults(clock.WallClock)
	w := &World{
		options:    options,
		clock:      clock.WallClock,
		start:      clock.WallClock.Now(),
		machine:    fakes.NewMachine(hand, machineID),
		host:       fakes.NewHost(hand),
		log:        fakes.NewLog(),
		containers: make(map[string]*Container),
		harvest:    options.Harvest,
	}
	w.machine.RequireLock(w.host.Lock())
	w.machine.SetSupported(w.supported()...)
	w.machine.SetHarvestMode(options.Harvest)
	w.host.SetInitialiseTime(20*time.Second + 1)
	w.host.SetStartTime(3*time.Second + 1)
	w.refuse()
	return w
}

// refuse makes the host unable to have what it is to be unable to have.
func (w *World) refuse() {
	for _, t := range w.options.Refused {
		w.host.SetUnsupported(t)
	}
}

// supported are the types that the controller says the machine can have.
func (w *World) supported() []facade.ContainerType {
	if w.options.Zones {
		return []facade.ContainerType{lxd, kvm, zone, lxd}
	}
	return []facade.ContainerType{lxd, kvm}
}

// canHave tells whether containers of the type can be had here.
func (w *World) canHave(t facade.ContainerType) bool {
	return (t == lxd || t == kvm) && !slices.Contains(w.options.Refused, t)
}

// Sleep lets time pass.
func (w *World) Sleep(d time.Duration) { <-w.clock.After(d) }

// since is the time of the story.
func (w *World) since() time.Duration { return w.clock.Now().Sub(w.start) }

// violated records that a rule was broken just now.
func (w *World) violated(format string, args ...any) {
	text := fmt.Sprintf("at %s: ", w.since()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, text)
}

// print records what a person, or another program, got to see.
func (w *World) print(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.printed = append(w.printed, texts...)
}

// Spec is a container to be added.
type Spec struct {
	ID string
	// Devices have to be under bridges of their own; none by default.
	Devices []string
}

// Add adds a living container. What is no id of a container on this machine is
// named to whoever watches all containers.
func (w *World) Add(spec Spec) {
	c := &Container{ID: spec.ID, devices: spec.Devices}
	if id, err := container.ParseID(spec.ID); err == nil && id.Host == machineID {
		c.Type = id.Type
	}
	devices := []facade.DeviceToBridge{}
	for _, device := range spec.Devices {
		devices = append(devices, facade.DeviceToBridge{Device: device, Bridge: "br-" + device})
	}
	w.mu.Lock()
	w.containers[spec.ID] = c
	w.mu.Unlock()
	w.machine.AddContainer(spec.ID, fakes.Container{Devices: devices})
}

// alter changes what is known of a container.
func (w *World) alter(id string, f func(*Container)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.containers[id]; c != nil {
		f(c)
	}
}

// known returns what is known of the containers, sorted by id.
func (w *World) known() []Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Container
	for _, id := range slices.Sorted(maps.Keys(w.containers)) {
		out = append(out, *w.containers[id])
	}
	return out
}

// Age moves a container on in its life: alive, dying, dead. What comes after
// that is the worker's to say.
func (w *World) Age(id string) {
	switch w.machine.Life(id) {
	case facade.Alive:
		w.machine.SetLife(id, facade.Dying)
	case facade.Dying:
		w.Die(id)
	case facade.Dead:
	}
}

// Die makes a container dead, if it is there.
func (w *World) Die(id string) {
	if w.machine.Life(id) != "" {
		w.alter(id, func(c *Container) { c.died = true })
		w.machine.SetLife(id, facade.Dead)
	}
}

// Remove makes the controller forget a container, whatever its life.
func (w *World) Remove(id string) {
	if w.machine.Life(id) != "" {
		w.alter(id, func(c *Container) { c.died = false })
		w.machine.RemoveContainer(id)
	}
}

// AskAgain does what a user does who wants another attempt.
func (w *World) AskAgain(id string) {
	w.alter(id, func(c *Container) { c.givenUp = false })
	w.machine.AskAgain(id)
}

// Lose takes a recorded instance away behind everybody's back. It tells whether
// there was one.
func (w *World) Lose(id string) bool {
	if w.machine.InstanceInfo(id).InstanceID == "" {
		return false
	}
	w.host.Vanish(id)
	w.alter(id, func(c *Container) { c.lost = true })
	return true
}

// SetHarvest changes the harvest mode.
func (w *World) SetHarvest(mode facade.HarvestMode) {
	w.mu.Lock()
	w.changed = w.changed || mode != w.harvest
	w.harvest = mode
	w.mu.Unlock()
	w.machine.SetHarvestMode(mode)
}

// mode returns the harvest mode, and whether it has always been that.
func (w *World) mode() (mode facade.HarvestMode, always bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.harvest, !w.changed
}

// Reinstall gives the machine a new host, on which nothing was ever done. What
// is recorded is lost with it.
func (w *World) Reinstall() {
	w.host.Reinstall()
	w.refuse()
	for _, c := range w.known() {
		if w.machine.InstanceInfo(c.ID).InstanceID != "" {
			w.alter(c.ID, func(c *Container) { c.lost = true })
		}
	}
}

// instance returns the container's instance, and whether there is one.
func (w *World) instance(id string) (container.Instance, bool) {
	for _, i := range w.host.Instances() {
		if i.ContainerID == id {
			return i, true
		}
	}
	return container.Instance{}, false
}

// containerOf returns which container the instance is of, if it is of any.
func (w *World) containerOf(instance string) string {
	for _, c := range w.known() {
		if string(fakes.InstanceID(c.ID)) == instance {
			return c.ID
		}
	}
	return ""
}

// canary is in the user data of every container.
const canary = "canary-of-"

// leaks looks for secrets in all that was printed.
func (w *World) leaks() []string {
	for _, c := range w.known() {
		for _, status := range w.machine.Statuses(c.ID) {
			w.print(status.Message)
		}
	}
	w.mu.Lock()
	all := strings.Join(append([]string{w.log.Text()}, w.printed...), "\n")
	w.mu.Unlock()
	before, _, found := strings.Cut(all, canary)
	if !found {
		return nil
	}
	return []string{"a secret was printed: " + before[strings.LastIndexByte(before, '\n')+1:] + "..."}
}
