package fakes

import (
	"maps"
	"slices"
	"time"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// SetInitialiseTime changes how long it takes to prepare the host for a type
// that is not prepared; in the middle of it the type is half prepared. Zero in
// the beginning.
func (h *Host) SetInitialiseTime(d time.Duration) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.initTime = d
}

// SetStartTime changes how long it takes to start an instance that does not
// run; meanwhile it is half made. Zero in the beginning.
func (h *Host) SetStartTime(d time.Duration) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.startTime = d
}

// SetStale makes AllInstances lag behind: after each change, its next reads, and
// those of the time given, still show what was before. Both zero, the default,
// is no lag.
func (h *Host) SetStale(reads int, d time.Duration) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.staleReads, h.state.staleFor = reads, d
	for _, t := range h.state.types {
		t.staleOngoing = false
	}
}

// SetUnsupported makes the host one that can never have containers of the type,
// so that Initialise returns errors.NotSupported.
func (h *Host) SetUnsupported(t facade.ContainerType) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.of(t).unsupported = true
}

// Reboot ends everything that runs on the host, the agent too: every connection
// is cut and the lock is free. What was installed, configured and made is still
// there, instances that ran run again, and those half made are half made.
func (h *Host) Reboot() {
	h.state.mu.Lock()
	sessions := slices.Clone(h.state.sessions)
	h.state.mu.Unlock()
	// Not with the state locked, which calls that are acting now want.
	for _, f := range sessions {
		f.Cut()
	}
}

// Reinstall is a Reboot into a host on which nothing was ever done: another
// life. What is counted is counted anew.
func (h *Host) Reinstall() {
	h.Reboot()
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.renew()
}

// Uninstall takes away what Initialise did for the type, and its instances, by
// somebody else's hand.
func (h *Host) Uninstall(t facade.ContainerType) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.of(t).installed, h.state.of(t).ready = false, false
	maps.DeleteFunc(h.state.instances, func(_ string, i *hostInstance) bool { return i.t == t })
}

// Life counts the lives of the host, from 1.
func (h *Host) Life() int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.life
}

// Initialised reports whether the host is prepared for the type, and whether it
// is at least half.
func (h *Host) Initialised(t facade.ContainerType) (whole, half bool) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.of(t).ready, h.state.of(t).installed
}

// Initialisations returns how often the host became prepared for the type in
// this life. An Initialise that finds it prepared does not count.
func (h *Host) Initialisations(t facade.ContainerType) int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.of(t).initialised
}

// Brokers returns how many brokers were handed out for the type in this life,
// and the settings that the last of them was given.
func (h *Host) Brokers(t facade.ContainerType) (int, facade.ContainerManagerConfig) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.of(t).brokers, maps.Clone(h.state.of(t).settings)
}

// AddInstance makes an instance for the container, running or not, as an earlier
// agent may have left it.
func (h *Host) AddInstance(id string, running bool) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.changing(typeOf(id))
	made := newInstance(container.StartParams{ContainerID: id})
	made.whole, made.running = true, running
	h.state.instances[id] = made
}

// HalfMake makes half of an instance for the container, as an agent may have
// left it that was killed in the middle.
func (h *Host) HalfMake(id string) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.changing(typeOf(id))
	h.state.instances[id] = newInstance(container.StartParams{ContainerID: id})
}

// Halt makes the container's instance not run any more; it is still there.
func (h *Host) Halt(id string) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if i := h.state.instances[id]; i != nil {
		h.state.changing(typeOf(id))
		i.running = false
	}
}

// Vanish takes the container's instance away behind everybody's back.
func (h *Host) Vanish(id string) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if _, ok := h.state.instances[id]; ok {
		h.state.changing(typeOf(id))
		delete(h.state.instances, id)
	}
}

// AddForeign makes an instance of that type that is another model's, or
// nobody's. Brokers must neither list nor stop it.
func (h *Host) AddForeign(t facade.ContainerType, id container.InstanceID) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	h.state.of(t).foreign = append(h.state.of(t).foreign, id)
}

// Foreign returns the instances of the type that AddForeign has made.
func (h *Host) Foreign(t facade.ContainerType) []container.InstanceID {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return slices.Clone(h.state.of(t).foreign)
}

// Instances returns what there really is of this model's instances, of every
// type, whatever readers are shown, sorted by container.
func (h *Host) Instances() []container.Instance {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	var out []container.Instance
	for _, id := range slices.Sorted(maps.Keys(h.state.instances)) {
		out = append(out, h.state.instances[id].instance(id))
	}
	return out
}

// Running returns the containers whose instances run, sorted.
func (h *Host) Running() []string {
	var out []string
	for _, i := range h.Instances() {
		if i.Running {
			out = append(out, i.ContainerID)
		}
	}
	return out
}

// Params returns what the container's instance was made from, and whether there
// is one.
func (h *Host) Params(id string) (container.StartParams, bool) {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	if i := h.state.instances[id]; i != nil {
		return cloneParams(i.params), true
	}
	return container.StartParams{}, false
}

// Starts returns how often an instance of the container was made to run in this
// life of the host. Starting one that runs does not count.
func (h *Host) Starts(id string) int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.starts[id]
}

// Stops returns how often an instance of the container was removed by
// StopInstances in this life of the host.
func (h *Host) Stops(id string) int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.stops[id]
}

// PeakStarts returns the greatest number of StartInstance calls that were under
// way at once.
func (h *Host) PeakStarts() int {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return h.state.peak
}

// Violations returns what was done to the host that must not be, oldest first:
// two changes at once, and, once [Host.Lock] was asked for, a change without
// it. Initialise and Bridge are changes.
func (h *Host) Violations() []string {
	h.state.mu.Lock()
	defer h.state.mu.Unlock()
	return slices.Clone(h.state.violations)
}
