package containersim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// What a story does not do, since the worker does not promise to bear it:
//
//   - No id is used for a second container. Controllers count on.
//   - What the host was prepared with is not taken away while an agent runs: it
//     is prepared once in an agent's life.
//   - An instance is taken away by others only where it is recorded; else nobody
//     could tell that there ever was one.
//   - Of a container that the controller forgot before it was dead, nothing is
//     demanded but that no instance is left with a harvest mode that says so.
//     Who crashed between stopping it and giving its addresses back has left
//     nobody who knows that it had any.
//   - Nor is that demanded while nobody asks for a container of the type: a gone
//     container prepares nothing, so nobody looks after what it left.
//   - What the harvest mode was when a container died is not demanded of what is
//     left of it, once the mode has changed.
//   - A container of a type that cannot be had is told so only while the handler
//     still watches: once every supported type is prepared, it does not.

// settleBound is how long everything may take to be as it should once the
// faults have stopped: what was under way, of which one waits for another's
// lock; then the longest wait, which is for a resync, and the back-offs.
const settleBound = initialiseTimeout + 2*startTimeout + resyncInterval + 10*time.Minute

// Story is a random story. It is told once.
type Story struct {
	seed  uint64
	dice  *dice
	world *World
	storm storm

	stormy atomic.Bool
	// most is how many containers of a type there are at most, ever. With
	// more than one, calls about several are quick: see Options.
	most   int
	events int
	next   map[facade.ContainerType]int
	types  []facade.ContainerType

	agent    *agent
	silenced []func()
	holds    []func()
}

// NewStory returns the story of a seed, about a world that is broken as the
// variant says. It replays.
func NewStory(seed uint64, variant Variant) *Story { return newStory(seed, variant, false) }

// NewCrowd returns a story in which several containers of a type share calls that
// take time and fail in every way. It depends a little on how goroutines are
// scheduled who shares with whom, so that it may not replay.
func NewCrowd(seed uint64) *Story { return newStory(seed, Variant{}, true) }

func newStory(seed uint64, variant Variant, crowd bool) *Story {
	d := throwFor(seed, "story")
	options := Options{
		Seed:        seed,
		Zones:       d.in1000(400),
		Quick:       !crowd && d.in1000(500),
		Plain:       d.in1000(300),
		Harvest:     pick(d, facade.HarvestDestroyed, facade.HarvestDestroyed, facade.HarvestAll, facade.HarvestUnknown, facade.HarvestNone),
		MaxAttempts: pick(d, 0, 0, 3),
		Variant:     variant,
	}
	if crowd {
		options.Concurrency = 1 + d.below(3)
	}
	if d.in1000(150) {
		options.Refused = []facade.ContainerType{pick(d, lxd, kvm)}
	}
	st := &Story{
		seed: seed, dice: d, world: NewWorld(options),
		most: 1, events: 5 + d.below(12), next: make(map[facade.ContainerType]int),
		// One type that cannot be had: two of them could be refused at one
		// instant, in one call or in two.
		types: []facade.ContainerType{lxd, lxd, lxd, kvm, kvm, kvm, pick(d, zone, jail)},
	}
	if options.Quick || crowd {
		st.most = 2 + d.below(3)
		st.types = append(st.types, zone, jail)
	}
	st.storm = storm{
		story: st, faults: pick(d, 0, 20, 60, 150), crashes: pick(d, 0, 0, 5, 25),
		worst: pick(d, "", "Initialise", "StartInstance", "SetInstanceInfo", "Bridge", "StopInstances", "Acquire", "SetContainerStatus"),
	}
	return st
}

// String tells what kind of story it is.
func (st *Story) String() string {
	o := st.world.options
	return fmt.Sprintf("seed %d: at most %d containers of a type, concurrency %d, zones %t, refused %v, plain %t, harvest %s, %d attempts, "+
		"%d events, per 1000 calls %d faults and %d crashes, worst %s",
		st.seed, st.most, o.Concurrency, o.Zones, o.Refused, o.Plain, o.Harvest, o.MaxAttempts, st.events, st.storm.faults, st.storm.crashes, st.storm.worst)
}

// World is the world of the story, to be looked at when it is over.
func (st *Story) World() *World { return st.world }

// Tell plays the story and returns what was wrong in it.
func (st *Story) Tell() []string {
	w := st.world
	st.stormy.Store(true)
	for range st.dice.below(4) {
		st.add()
	}
	st.agent = newAgent(st)
	for range st.events {
		w.Sleep(st.pause())
		st.event()
	}
	w.Sleep(st.pause())
	st.calm()
	w.Sleep(killTime + 1) // until who is to end by that has ended

	wrong := w.Settle(settleBound, time.Second)
	if wrong == nil {
		wrong = st.stays()
	}
	st.agent.end()
	return append(wrong, w.Finish()...)
}

// pause returns how long nothing happens: a moment, some calls, or longer.
func (st *Story) pause() time.Duration {
	switch st.dice.below(6) {
	case 0, 1:
		return st.dice.between(time.Millisecond, 300*time.Millisecond)
	case 2, 3, 4:
		return st.dice.between(300*time.Millisecond, 30*time.Second)
	}
	return st.dice.between(30*time.Second, resyncInterval+5*time.Minute)
}

// calm ends all that is wrong by itself: what is left is for the worker.
func (st *Story) calm() {
	st.world.note("the storm is over")
	st.stormy.Store(false)
	st.free()
	for _, end := range st.silenced {
		end()
	}
}

// free makes whoever else has the lock give it back.
func (st *Story) free() {
	for _, free := range st.holds {
		free()
	}
	st.holds = nil
}

// stays holds that what is as it should be stays so, and that nothing is done to
// it any more: for the time of one resync.
func (st *Story) stays() []string {
	w := st.world
	s := w.current()
	w.Sleep(maxBackoff + time.Minute) // what an answer was lost about is told once more
	since := w.clock.Now()
	w.Sleep(resyncInterval + time.Minute | 1)
	wrong := w.Settle(10*time.Second, time.Second) // not in the middle of a pass
	for _, c := range s.faults.Calls() {
		if c.Start.After(since) && isWrite(c.Method) {
			wrong = append(wrong, fmt.Sprintf("%s although all was well", c))
		}
	}
	return wrong
}

// agent is kept running, as by its engine: when it ends, whatever the reason,
// another one is started.
type agent struct {
	stop, done chan struct{}

	mu      sync.Mutex
	session *Session // nil while none runs
}

func newAgent(st *Story) *agent {
	a := &agent{stop: make(chan struct{}), done: make(chan struct{})}
	go a.keep(st)
	return a
}

func (a *agent) keep(st *Story) {
	defer close(a.done)
	for n := 0; ; n++ {
		s := st.world.Prepare(fmt.Sprint("a", n), nil)
		s.hook = st.storm.hook(s)
		st.world.Start(s)
		a.set(s)
		select {
		case <-a.stop:
			s.Kill()
			return
		case <-s.faults.Severed():
			s.Crash()
		case <-s.ended:
		}
		a.set(nil)
		select {
		case <-a.stop:
			return
		case <-st.world.clock.After(throwFor(st.seed, "restart", s.name).between(time.Second/2, 5*time.Second)):
		}
	}
}

func (a *agent) set(s *Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = s
}

// current returns the session that runs, nil while none does.
func (a *agent) current() *Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.session == nil || a.session.over() {
		return nil
	}
	return a.session
}

func (a *agent) end() {
	close(a.stop)
	<-a.done
}

// event makes something happen that may happen now, if what was drawn may.
func (st *Story) event() {
	d, w := st.dice, st.world
	known := w.known()
	var c Container
	if len(known) > 0 {
		c = pick(d, known...)
	}
	switch what := d.below(100); {
	case what < 30 || c.ID == "":
		st.add()
	case what < 45:
		st.age(c.ID)
	case what < 50:
		w.note("%s is forgotten", c.ID)
		w.Remove(c.ID)
	case what < 54:
		if c.Type != "" {
			w.note("%s is asked for again", c.ID)
			w.AskAgain(c.ID)
		}
	case what < 58:
		st.repeat(c.ID)
	case what < 62:
		st.addForeign()
	case what < 70:
		st.occupy()
	case what < 80:
		st.breakSession()
	case what < 87:
		st.breakWatcher()
	case what < 91:
		if !w.options.Plain {
			mode := pick(d, facade.HarvestNone, facade.HarvestUnknown, facade.HarvestDestroyed, facade.HarvestAll)
			w.note("the harvest mode is %s", mode)
			w.SetHarvest(mode)
		}
	case what < 94:
		if w.Lose(c.ID) {
			w.note("the instance of %s is lost", c.ID)
		}
	case what < 98:
		w.note("the machine reboots")
		st.free()
		w.host.Reboot()
	default:
		w.note("the machine is reinstalled")
		st.free()
		w.Reinstall()
	}
}

// add adds a container, of a type of which there may be one more.
func (st *Story) add() {
	d := st.dice
	t := pick(d, st.types...)
	n := st.next[t]
	if n >= st.most {
		return
	}
	st.next[t]++
	spec := Spec{ID: container.ID{Host: machineID, Type: t, Number: n}.String()}
	for _, device := range []string{"eth0", "eth1"} {
		if d.in1000(400) {
			spec.Devices = append(spec.Devices, device)
		}
	}
	st.world.note("%s is added, with %v", spec.ID, spec.Devices)
	st.world.Add(spec)
}

// addForeign names what is no container of this machine.
func (st *Story) addForeign() {
	id := pick(st.dice, "1/lxd/0", "0/lxd/0/kvm/0", "0", "", "0/lxd", "0/LXD/0", "0/lxd/-1", "0/kvm/0/", strings.Repeat("0/", 700)+"lxd/0")
	st.world.note("%.20q is added", id)
	st.world.Add(Spec{ID: id})
}

// age moves a container on in its life.
func (st *Story) age(id string) {
	st.world.Age(id)
	st.world.note("the life of %s is now %q", id, st.world.machine.Life(id))
}

// flip is what happens to a container in the middle of a call.
func (st *Story) flip(d *dice, id string) {
	switch {
	case !slices.ContainsFunc(st.world.known(), func(c Container) bool { return c.ID == id && c.Type != "" }):
	case d.in1000(600):
		st.age(id)
	case d.in1000(500):
		st.world.note("%s is forgotten", id)
		st.world.Remove(id)
	default:
		st.world.note("%s is asked for again", id)
		st.world.AskAgain(id)
	}
}

// repeat makes watchers name a container again.
func (st *Story) repeat(id string) {
	s := st.agent.current()
	if s == nil {
		return
	}
	st.world.note("%s is named again", id)
	for _, t := range []facade.ContainerType{"", lxd, kvm} {
		for _, watcher := range s.machine.ContainerWatchers(t) {
			// Also those of another type, as odd as that is.
			watcher.Send([]string{id, id})
		}
	}
}

// occupy makes others have the machine lock for a while.
func (st *Story) occupy() {
	w := st.world
	d := st.dice.between(time.Second, startTimeout)
	if st.dice.in1000(700) {
		d = st.dice.between(time.Second, time.Minute)
	}
	w.note("others want the lock, and have it for %s", d)
	free := w.host.Lock().Occupy(container.Holder{Worker: "somebody", Reason: "something"}, 4711)
	w.clock.AfterFunc(d, free)
	st.holds = append(st.holds, free)
}

// breakSession crashes or kills the agent; another will follow.
func (st *Story) breakSession() {
	s := st.agent.current()
	crash := st.dice.in1000(500)
	switch {
	case s == nil:
	case crash:
		st.world.note("agent %s is cut off", s.name)
		s.faults.Cut()
	default:
		st.world.note("agent %s is killed", s.name)
		s.Kill()
	}
}

// breakWatcher ends one of the watchers of the agent, which has to end whoever
// it is for; or has it fall silent, which nobody can notice.
func (st *Story) breakWatcher() {
	d, w := st.dice, st.world
	t := pick(d, "", lxd, kvm, "harvest")
	how := pick(d, "fails", "ends", "closes", "falls silent")
	s := st.agent.current()
	if s == nil {
		return
	}
	var breaks map[string]func()
	if t == "harvest" {
		breaks = waysToBreak(s.machine.HarvestWatchers())
	} else {
		breaks = waysToBreak(s.machine.ContainerWatchers(t))
	}
	if breaks == nil {
		return
	}
	w.note("the watcher %q of %s %s", t, s.name, how)
	doom := func() {
		if t == "" {
			s.Doom("its watcher ended")
		}
	}
	if how == "falls silent" {
		st.silenced = append(st.silenced, func() {
			doom()
			breaks["fails"]()
		})
	} else {
		doom()
	}
	breaks[how]()
	if t == "" && how != "falls silent" {
		s.awaitEnd(killTime, "its watcher ended")
	}
}

// waysToBreak are what may become of the first of the watchers.
func waysToBreak[T any](watchers []*fakes.Watcher[T]) map[string]func() {
	if len(watchers) == 0 {
		return nil
	}
	one := watchers[0]
	return map[string]func(){
		"fails": func() { one.Fail(boom) }, "ends": one.End, "closes": one.Close, "falls silent": one.Silence,
	}
}
