package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/operator"
)

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
