package simulation

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sutler-dev/sutler/fakes"
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
// making its operator: nine calls that each run almost into their deadline, of
// which the two that go by batches may take three times as long.
const longestPass = 13 * callTimeout

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
		worst: pick(d, "", "StageOperator", "SetPasswords", "EnsureOperator", "DeleteOperator", "IssueOperatorCertificate",
			"GlanceOperator", "KeepOperator"),
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
	return fmt.Sprintf("seed %d: features %07b, hidden generations %t, %d applications, %d events, "+
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
