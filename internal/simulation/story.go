package simulation

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

// What a story does not do, since the worker does not promise to bear it:
//
//   - Two workers overlap only where the manager is an operator.Stager, and
//     while they do, and for the longest pass before, no operator is changed by
//     hand. One of them could be about to tell the password of what was there.
//   - An application is made again only when nobody can be about to act on what
//     its predecessor was: after the operator of that was deleted (its end may
//     be awaited still), or after the longest pass. And never where the whole
//     operator of the predecessor stands: nothing tells the one from the other.
//   - Without an operator.Lister no application vanishes: it stays dead. A
//     worker that was not there would never hear of its operator.
//   - Reads lag behind writes only where there are a Stager and a Lister, and
//     then operators do not give themselves passwords: one that is there and
//     seems not to be is told about again.
//   - An operator that is somebody else's is there from the beginning, and its
//     application does not vanish: what belongs to no application is ours to
//     delete.
//   - An operator that has a password of its own does not lose its configuration
//     alone: nobody could know any more what it logs in with.

// longestPass is how long a pass may take from reading an application's life to
// making its operator: eight calls that each run almost into their deadline, of
// which the two that go by batches may take three times as long.
const longestPass = 12 * callTimeout

// settleBound is how long everything may take to be as it should once the
// faults have stopped: the longest pass that was under way, and then the longest
// of all waits, which is that for a certificate that was refused many times;
// or, when an event was lost, a resync, both once more where a host's clock is
// set back; and the longest deletion and back-off.
const settleBound = longestPass + 2*(maxIssueBackoff+resyncInterval) + longestDeletion + maxBackoff

// longestDeletion is how long an operator takes to terminate, at most, once the
// faults have stopped.
const longestDeletion = 5 * time.Minute

// longestStep is how far a host's clock is set forward or back.
const longestStep = time.Hour

// Story is a random story. It is told once.
type Story struct {
	seed  uint64
	dice  *dice
	world *World
	storm storm

	stormy atomic.Bool
	names  []string
	specs  map[string]Spec
	events int
	// Which of the riskier things happen in it: workers that overlap, reads that
	// lag, operators with a password of their own, certificates that soon fall
	// due, hosts whose clock is set.
	overlaps, laggy, owns, shortLived, steps bool

	slots   []*slot
	started int
	// tampered and overlapped are when an operator was last changed by hand,
	// and when two workers last overlapped.
	tampered, overlapped time.Time
	silenced             []broken
}

// broken is a watcher of a session that was broken.
type broken struct {
	session *Session
	watcher *fakes.Watcher[[]string]
}

// NewStory returns the story of a seed, about a world that is broken as the
// variant says.
func NewStory(seed uint64, variant Variant) *Story {
	d := throwFor(seed, 0, "story")
	options := Options{Seed: seed, Features: AllFeatures, Concurrency: 6, Variant: variant}
	if d.in1000(500) {
		options.Features = fakes.Features(d.below(int(AllFeatures) + 1))
	}
	if variant.Wrap != nil {
		options.Features = AllFeatures &^ variant.Without
	}
	staging, listing := options.Features&fakes.Staging != 0, options.Features&fakes.Listing != 0
	options.HideGenerations = !staging && d.in1000(250)
	st := &Story{
		seed: seed, dice: d, world: NewWorld(options), specs: make(map[string]Spec),
		events:   6 + d.below(14),
		overlaps: staging && d.in1000(600),
		laggy:    staging && listing && d.in1000(150),
		steps:    d.in1000(1000),
	}
	st.owns = !st.laggy && !options.HideGenerations
	st.storm = storm{
		story: st, faults: pick(d, 0, 20, 60, 150), crashes: pick(d, 0, 0, 5, 25),
		worst: pick(d, "", "StageOperator", "SetPasswords", "EnsureOperator", "DeleteOperator", "IssueOperatorCertificate"),
	}
	st.names = []string{"mysql", "redis", "gitlab-ce", "kafka"}[:1+d.below(4)]
	for _, name := range st.names {
		spec := Spec{Name: name, Storage: pick(d, "", "", "kubernetes", "kubernetes", "lxd")}
		if d.in1000(200) {
			spec.Format, spec.Foreign = 2, d.in1000(500)
		}
		st.specs[name] = spec
	}
	return st
}

// String tells what kind of story it is.
func (st *Story) String() string {
	o := st.world.options
	return fmt.Sprintf("seed %d: features %06b, hidden generations %t, %d applications, %d events, "+
		"per 1000 calls %d faults and %d crashes, worst %s, overlaps %t, lag %t, clock steps %t",
		st.seed, o.Features, o.HideGenerations, len(st.names), st.events, st.storm.faults, st.storm.crashes, st.storm.worst, st.overlaps, st.laggy, st.steps)
}

// World is the world of the story, to be looked at when it is over.
func (st *Story) World() *World { return st.world }

// Tell plays the story and returns what was wrong in it.
func (st *Story) Tell() []string {
	w := st.world
	st.stormy.Store(true)
	if st.laggy {
		w.manager.SetStale(0, 3*time.Second)
	}
	for _, name := range st.names {
		if st.dice.in1000(500) || st.specs[name].Foreign {
			w.Add(st.specs[name])
		}
	}
	st.addSlot()
	for range st.events {
		w.Sleep(st.pause())
		tampered := st.tampered
		st.event()
		st.report()
		switch {
		case st.storm.crashes == 0:
		case st.tampered != tampered:
			// In the middle of making it good.
			w.Sleep(st.dice.between(40*time.Millisecond, 120*time.Millisecond))
			st.breakSession()
		case st.dice.in1000(200):
			// In the middle of whatever that has set off.
			w.Sleep(st.dice.between(10*time.Millisecond, 150*time.Millisecond))
			st.breakSession()
		}
	}
	w.Sleep(st.pause())
	st.calm()

	wrong := w.Settle(settleBound, 15*time.Second)
	if wrong == nil {
		wrong = st.stays()
	}
	st.endAll()
	return append(wrong, w.Finish()...)
}

// report has a person look at the workers' reports.
func (st *Story) report() {
	for _, sl := range st.slots {
		if s := sl.current(); s != nil {
			st.world.print(fmt.Sprint(s.worker.Report()))
		}
	}
}

// pause returns how long nothing happens: a moment, some passes, or longer.
func (st *Story) pause() time.Duration {
	switch st.dice.below(6) {
	case 0, 1:
		return st.dice.between(time.Millisecond, 300*time.Millisecond)
	case 2, 3, 4:
		return st.dice.between(300*time.Millisecond, 20*time.Second)
	}
	return st.dice.between(20*time.Second, longestPass+time.Minute)
}

// calm ends all that is wrong by itself: what is left is for the worker.
func (st *Story) calm() {
	w := st.world
	w.note("the storm is over")
	st.stormy.Store(false)
	st.endOverlap()
	for _, b := range st.silenced {
		b.session.Doom("its watcher had fallen silent and ended")
		b.watcher.Fail(boom)
	}
	w.manager.SetStale(0, 0)
	w.hostClock.set(0)
	w.controller.SetFlaw("")
	w.controller.SetFlaw("", st.names...)
	for _, name := range st.names {
		w.manager.SetTermination(fakes.Termination{For: time.Second}, name)
		w.manager.Finish(name)
	}
}

// stays holds that what is as it should be stays so, and that nothing is done to
// it any more: for the time of one resync.
func (st *Story) stays() []string {
	w := st.world
	count := func() (writes, passwords int) {
		for _, name := range st.names {
			writes += w.manager.Writes(name)
			passwords += w.controller.PasswordChanges(name)
		}
		return writes, passwords
	}
	writes, passwords := count()
	w.Sleep(resyncInterval + time.Minute)
	// Not in the middle of a pass.
	wrong := w.Settle(10*time.Second, time.Second)
	writesNow, passwordsNow := count()
	if writesNow != writes && !st.shortLived {
		wrong = append(wrong, fmt.Sprintf("%d writes although all was well", writesNow-writes))
	}
	if passwordsNow != passwords {
		wrong = append(wrong, fmt.Sprintf("%d passwords changed although all was well", passwordsNow-passwords))
	}
	return wrong
}

// slot is a place where a worker is kept running, as an engine does: when it
// ends, whatever the reason, another one is started.
type slot struct {
	name  string
	stop  chan struct{} // closed when it is to end
	crash bool          // by a crash; set before
	done  chan struct{}

	mu      sync.Mutex
	session *Session // nil while none runs
}

func (sl *slot) current() *Session {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	return sl.session
}

func (st *Story) addSlot() {
	sl := &slot{name: string(rune('a' + st.started)), stop: make(chan struct{}), done: make(chan struct{})}
	st.started++
	st.slots = append(st.slots, sl)
	go st.keep(sl)
}

func (st *Story) keep(sl *slot) {
	defer close(sl.done)
	for n := 0; ; n++ {
		s := st.world.Prepare(fmt.Sprint(sl.name, n))
		s.hook = st.storm.hook(s)
		st.world.Start(s)
		sl.set(s)
		select {
		case <-sl.stop:
			if sl.crash {
				s.Crash()
			} else {
				s.Kill()
			}
			return
		case <-s.faults.Severed():
			s.Crash()
		case <-s.ended:
		}
		sl.set(nil)
		select {
		case <-sl.stop:
			return
		case <-st.world.clock.After(throwFor(st.seed, n, sl.name, "restart").between(time.Second/2, 5*time.Second)):
		}
	}
}

func (sl *slot) set(s *Session) {
	sl.mu.Lock()
	defer sl.mu.Unlock()
	sl.session = s
}

// end ends the first slot.
func (st *Story) end(crash bool) {
	sl := st.slots[0]
	sl.crash = crash
	close(sl.stop)
	<-sl.done
	st.slots = st.slots[1:]
}

func (st *Story) endOverlap() {
	for len(st.slots) > 1 {
		st.world.note("the older worker ends")
		st.end(st.dice.in1000(500))
		st.overlapped = st.world.clock.Now()
	}
}

func (st *Story) endAll() {
	for len(st.slots) > 0 {
		st.end(false)
	}
}

// event makes something happen that may happen now, if what was drawn may.
func (st *Story) event() {
	d, w := st.dice, st.world
	name := pick(d, st.names...)
	if st.steps && d.in1000(150) {
		ahead := d.between(0, 2*longestStep) - longestStep
		w.note("the host's clock is now ahead by %s", ahead)
		w.hostClock.set(ahead)
		return
	}
	switch what := d.below(100); {
	case what < 22:
		st.add(name)
	case what < 38 && st.life(name) == "":
		st.add(name)
	case what < 34:
		st.age(name)
	case what < 38:
		st.remove(name)
	case what < 48:
		st.changeInfo(d, name)
	case what < 51:
		w.note("the CA is replaced")
		w.RotateCA()
		if d.in1000(300) {
			w.Sleep(d.between(time.Millisecond, 20*time.Second))
		}
		w.LearnCA()
	case what < 54:
		st.toggleCharm(name)
	case what < 66:
		st.tamper(name)
	case what < 72:
		st.takeOwnPassword(name)
	case what < 80:
		st.breakSession()
	case what < 87:
		st.overlap()
	case what < 92:
		st.breakWatcher()
	case what < 94:
		if s := st.slots[0].current(); s != nil {
			w.note("%s is triggered", name)
			if err := s.worker.Trigger(name); err != nil {
				w.violated("Trigger(%q): %v", name, err)
			}
		}
	case what < 97:
		t := pick(d, fakes.Termination{}, fakes.Termination{For: 4 * time.Second}, fakes.Termination{For: longestDeletion},
			fakes.Termination{Looks: 3}, fakes.Termination{Forever: true})
		w.note("deletions of %s are now %+v", name, t)
		w.manager.SetTermination(t, name)
	default:
		st.spoilCertificates(name)
	}
}

// life returns an application's life, empty if there is none.
func (st *Story) life(name string) facade.Life {
	st.world.mu.Lock()
	defer st.world.mu.Unlock()
	if a := st.world.apps[name]; a != nil {
		return a.Life
	}
	return ""
}

func (st *Story) add(name string) {
	w := st.world
	w.mu.Lock()
	a := w.apps[name]
	now := w.clock.Now()
	can := a == nil
	if a != nil && a.Life == "" {
		state := w.manager.State(name)
		deleted := len(st.slots) == 1 && a.deleted.After(a.died) && st.overlapped.Before(a.died)
		can = (deleted || now.Sub(a.gone) > longestPass) && (!state.Exists || state.Terminating)
	}
	w.mu.Unlock()
	if !can {
		return
	}
	w.note("%s is added", name)
	w.Add(st.specs[name])
}

// age moves an application on in its life, as far as that may go.
func (st *Story) age(name string) {
	if st.life(name) == facade.Dead && !st.mayVanish(name) {
		return
	}
	st.world.Age(name)
	st.world.note("the life of %s is now %q", name, st.life(name))
}

func (st *Story) remove(name string) {
	if !st.mayVanish(name) {
		return
	}
	st.world.note("%s is removed", name)
	st.world.Remove(name)
}

func (st *Story) mayVanish(name string) bool {
	return st.world.has(fakes.Listing) && !st.specs[name].Foreign
}

// flip is what happens to an application in the middle of a call.
func (st *Story) flip(d *dice, name string) {
	switch {
	case name == "":
	case d.in1000(500):
		st.age(name)
	default:
		st.changeInfo(d, name)
	}
}

func (st *Story) changeInfo(d *dice, name string) {
	w := st.world
	n := d.below(1000)
	w.note("the information about %s changes, %d", name, n)
	w.SetInfo(name, func(i *facade.OperatorProvisioningInfo) {
		switch n % 6 {
		case 0:
			slices.Reverse(i.APIAddresses)
		case 1:
			i.APIAddresses = []string{fmt.Sprintf("10.1.%d.%d:17070", n/250, n%250), "10.0.0.2:17070"}
		case 2:
			i.Version = fmt.Sprintf("2.9.%d", n)
		case 3:
			i.ImageDetails.RegistryPath = fmt.Sprintf("registry.example.com/operator:%d", n)
		case 4:
			i.Tags = map[string]string{"tag": fmt.Sprint(n)}
		default:
			i.CharmStorage = pick(d, nil, &facade.CharmStorage{StorageName: "charm", Size: 5, Provider: "kubernetes"},
				&facade.CharmStorage{StorageName: "charm", Size: 5, Provider: "lxd"}, &facade.CharmStorage{StorageName: "charm"})
		}
	})
}

func (st *Story) toggleCharm(name string) {
	w := st.world
	w.mu.Lock()
	a := w.apps[name]
	lost := a != nil && a.NoCharm
	w.mu.Unlock()
	switch {
	case a == nil || st.specs[name].Foreign:
	case lost:
		w.note("the charm of %s is found", name)
		w.FindCharm(name)
	default:
		w.note("the charm of %s is lost", name)
		w.LoseCharm(name)
	}
}

func (st *Story) tamper(name string) {
	w := st.world
	if len(st.slots) > 1 {
		return
	}
	how := pick(st.dice, Vanishes, HalfVanishes, Deleted, ConfigVanishes, ConfigVanishes, Corrupted, Corrupted)
	if w.Tamper(name, how) {
		w.note("the operator of %s: %s", name, how)
		st.tampered = w.clock.Now()
	}
}

func (st *Story) takeOwnPassword(name string) {
	w := st.world
	switch {
	case !st.owns || len(st.slots) > 1:
	case w.TakeOwnPassword(name):
		w.note("the operator of %s gives itself a password", name)
	default:
		w.note("the operator of %s changes", name)
		w.manager.SetStatus(name, operator.Status{Phase: operator.Waiting, Message: "crash loop"})
	}
}

// breakSession crashes or kills a worker; another will follow.
func (st *Story) breakSession() {
	s := pick(st.dice, st.slots...).current()
	if s == nil {
		return
	}
	if st.dice.in1000(500) {
		s.faults.Cut()
		return
	}
	st.world.note("worker %s is killed", s.name)
	s.Kill()
}

// overlap starts a second worker, or ends the first of two.
func (st *Story) overlap() {
	switch {
	case len(st.slots) > 1:
		st.endOverlap()
	case st.overlaps && st.world.clock.Now().Sub(st.tampered) > longestPass:
		st.world.note("a second worker starts")
		st.world.shareStatus()
		st.addSlot()
	}
}

// breakWatcher ends one of the watchers of a worker, which has to end the
// worker; or has it fall silent, which nobody can notice.
func (st *Story) breakWatcher() {
	d, w := st.dice, st.world
	s := pick(d, st.slots...).current()
	if s == nil {
		return
	}
	watchers := s.controller.Watchers(pick(d, "WatchApplications", "WatchProvisioning"))
	if d.in1000(300) {
		watchers = s.manager.Watchers()
	}
	if len(watchers) == 0 || s.over() {
		return
	}
	watcher := watchers[0]
	how := pick(d, "fails", "ends", "closes", "falls silent")
	w.note("a watcher of %s %s", s.name, how)
	if how == "falls silent" {
		watcher.Silence()
		st.silenced = append(st.silenced, broken{s, watcher})
		return
	}
	s.Doom("its watcher ended")
	switch how {
	case "fails":
		watcher.Fail(errors.Trace(boom))
	case "ends":
		watcher.End()
	default:
		watcher.Close()
	}
	most := killTime
	if !s.serves() {
		// It notices when it has all of its watchers.
		most += 3 * callTimeout
	}
	s.awaitEnd(most, "its watcher ended")
}

func (st *Story) spoilCertificates(name string) {
	d, w := st.dice, st.world
	switch d.below(4) {
	case 0:
		w.note("certificates live short")
		st.shortLived = true
		w.controller.SetCertificateLife(2 * time.Hour)
	case 1:
		w.controller.SetFlaw("", name)
	default:
		flaw := pick(d, fakes.Flaws()...)
		w.note("certificates of %s are spoilt: %s", name, flaw)
		w.controller.SetFlaw(flaw, name)
	}
}
