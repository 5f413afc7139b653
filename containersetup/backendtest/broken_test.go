package backendtest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// recorder is a backendtest.T that keeps what is reported.
type recorder struct {
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

func (*recorder) Helper()                    {}
func (r *recorder) Context() context.Context { return r.ctx }
func (*recorder) Logf(string, ...any)        {}
func (*recorder) FailNow()                   { runtime.Goexit() }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errors) > 0
}

// run runs one check and records what it reports.
func run(t *testing.T, check backendtest.Check, h backendtest.Harness) *recorder {
	r := &recorder{ctx: t.Context()}
	var wg sync.WaitGroup
	wg.Go(func() { check.Run(r, h) })
	wg.Wait()
	return r
}

// variant is a back end with one mistake, and the checks that must see it.
type variant struct {
	broken backend
	seenBy []string
}

// brokers breaks the broker alone.
func brokers(wrap func(h *fakes.Host, b container.Broker) container.Broker) backend {
	return func(h *fakes.Host) container.Backend {
		b := full(h)
		return container.Backend{
			Initialiser: b.Initialiser,
			NewBroker: func(ctx context.Context, settings facade.ContainerManagerConfig) (container.Broker, error) {
				broker, err := b.NewBroker(ctx, settings)
				if err != nil {
					return nil, err
				}
				return wrap(h, broker), nil
			},
		}
	}
}

// initialisers breaks the initialiser alone.
func initialisers(broken func(h *fakes.Host, ctx context.Context, i container.Initialiser) error) backend {
	return func(h *fakes.Host) container.Backend {
		b := full(h)
		i := b.Initialiser
		b.Initialiser = initialise(func(ctx context.Context) error { return broken(h, ctx, i) })
		return b
	}
}

type initialise func(context.Context) error

func (f initialise) Initialise(ctx context.Context) error { return f(ctx) }

func variants() map[string]variant {
	return map[string]variant{
		"initialises each time": {
			initialisers(func(h *fakes.Host, ctx context.Context, i container.Initialiser) error {
				h.Uninstall(container.LXD)
				return i.Initialise(ctx)
			}),
			[]string{
				"InitialiseTwiceChangesNothing", "InitialiseOneAfterAnotherFromManySides",
				"InitialiseAfterRestartChangesNothing", "Issue/InitialisedHostIsLeftAsItIs",
			},
		},
		"refuses to initialise a second time": {
			initialisers(func(h *fakes.Host, ctx context.Context, i container.Initialiser) error {
				if whole, _ := h.Initialised(container.LXD); whole {
					return errors.AlreadyExistsf("instances; the command")
				}
				return i.Initialise(ctx)
			}),
			[]string{"InitialiseTwiceChangesNothing", "InitialiseAfterRestartChangesNothing", "Issue/InitialisedHostIsLeftAsItIs"},
		},
		"takes half an initialisation for all of it": {
			initialisers(func(h *fakes.Host, ctx context.Context, i container.Initialiser) error {
				if _, half := h.Initialised(container.LXD); half {
					return nil
				}
				return i.Initialise(ctx)
			}),
			[]string{"InterruptedInitialiseReturnsAndTheNextCompletes", "InterruptedInitialiseIsCompletedByTheNextAgent"},
		},
		"is prepared a while after it said so": {
			initialisers(func(h *fakes.Host, ctx context.Context, i container.Initialiser) error {
				if err := ctx.Err(); err != nil {
					return err
				}
				time.AfterFunc(time.Second, func() { _ = i.Initialise(context.WithoutCancel(ctx)) })
				return nil
			}),
			[]string{"Issue/BackendIsReadyOnceInitialised", "StartedInstanceRunsAndIsListed"},
		},
		"never hears that its initialisation is cancelled": {
			initialisers(func(_ *fakes.Host, ctx context.Context, i container.Initialiser) error {
				return i.Initialise(context.WithoutCancel(ctx))
			}),
			[]string{
				"CancelledInitialiseIsAnErrorAndChangesNothing", "InterruptedInitialiseReturnsAndTheNextCompletes",
				"Issue/FirstProbeReturnsInTime",
			},
		},
		"hides the cancellation": {
			initialisers(func(_ *fakes.Host, ctx context.Context, i container.Initialiser) error {
				if err := i.Initialise(ctx); err != nil {
					return errors.New("exit status 1")
				}
				return nil
			}),
			[]string{"CancelledInitialiseIsAnErrorAndChangesNothing", "InterruptedInitialiseReturnsAndTheNextCompletes"},
		},
		"panics where nothing is prepared": {
			func(h *fakes.Host) container.Backend {
				b := full(h)
				newBroker := b.NewBroker
				b.NewBroker = func(ctx context.Context, s facade.ContainerManagerConfig) (container.Broker, error) {
					if whole, _ := h.Initialised(container.LXD); !whole {
						panic("nil connection")
					}
					return newBroker(ctx, s)
				}
				return b
			},
			[]string{"Issue/BrokerBeforeInitialiseIsAnErrorOrWorks"},
		},
		"connects once and for all": {
			func(h *fakes.Host) container.Backend {
				b := full(h)
				var once sync.Once
				var first error
				newBroker := b.NewBroker
				b.NewBroker = func(ctx context.Context, s facade.ContainerManagerConfig) (container.Broker, error) {
					broker, err := newBroker(ctx, s)
					once.Do(func() { first = err })
					if first != nil {
						return nil, first
					}
					return broker, err
				}
				return b
			},
			[]string{"Issue/BrokerBeforeInitialiseIsAnErrorOrWorks"},
		},
		"returns a nil broker": {
			func(h *fakes.Host) container.Backend {
				b := full(h)
				b.NewBroker = func(context.Context, facade.ContainerManagerConfig) (container.Broker, error) { return nil, nil }
				return b
			},
			[]string{"StartedInstanceRunsAndIsListed", "MissingSettingsAreBorneOrRefused"},
		},
		"panics without settings": {
			func(h *fakes.Host) container.Backend {
				b := full(h)
				newBroker := b.NewBroker
				b.NewBroker = func(ctx context.Context, s facade.ContainerManagerConfig) (container.Broker, error) {
					s["seen"] = "yes"
					return newBroker(ctx, s)
				}
				return b
			},
			[]string{"MissingSettingsAreBorneOrRefused"},
		},
		"makes a second instance": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker {
				return &seconds{Broker: b, made: map[string]int{}}
			}),
			[]string{
				"SecondStartReturnsTheSameAndMakesNone", "InterruptedStartIsCompletedByTheNext",
				"LostReplyOfTheDaemonMakesNoSecond", "HalfMadeInstanceIsCompleted", "OneContainerManyTimesAtOnce",
			},
		},
		"takes a half-made instance for a running one": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return halfIsEnough{b, h} }),
			[]string{"HalfMadeInstanceIsCompleted", "InterruptedStartIsCompletedByTheNext", "InterruptedStartIsCompletedByTheNextAgent"},
		},
		"does not start over what is there": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return exists{b, h} }),
			[]string{
				"SecondStartReturnsTheSameAndMakesNone", "HalfMadeInstanceIsCompleted", "LostReplyOfTheDaemonMakesNoSecond",
				"InterruptedStartIsCompletedByTheNext", "RestartKeepsEverything",
			},
		},
		"hides half-made instances": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return hides{b} }),
			[]string{"HalfMadeInstanceIsListedAndStops"},
		},
		"cannot stop what is half made": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return halfStays{b, h} }),
			[]string{"HalfMadeInstanceIsListedAndStops", "WhatAnInterruptedStartLeftIsListedAndStops"},
		},
		"lists everybody's instances": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return listsAll{b, h} }),
			[]string{"OnlyOnesOwnInstancesAreListed"},
		},
		"lists its own brokers' instances only": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker {
				return &remembers{Broker: b, made: map[string]bool{}}
			}),
			[]string{"BrokersSeeTheSameInstances", "RestartKeepsEverything", "LostAnswerIsFoundAgain"},
		},
		"takes absence for an error": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return absenceFails{b, h} }),
			[]string{"StoppingTheUnknownIsSuccess", "StoppedInstanceIsGone", "StopResultsAreInOrder"},
		},
		"stops the first and forgets the rest": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return stopsOne{b} }),
			[]string{"StopResultsAreInOrder"},
		},
		"stops everything": {
			brokers(func(h *fakes.Host, b container.Broker) container.Broker { return stopsAll{b, h} }),
			[]string{"StoppedInstanceIsGone", "StoppingTheUnknownIsSuccess", "StopResultsAreInOrder"},
		},
		"is short of results": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return short{b} }),
			[]string{"StoppedInstanceIsGone", "StopResultsAreInOrder"},
		},
		"never hears that a start is cancelled": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return deaf{b} }),
			[]string{
				"CancelledCallsAreErrorsAndDoNothing", "EndedDeadlineIsAnError", "InterruptedStartIsCompletedByTheNext",
			},
		},
		"takes params as they are": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return fillsIn{b} }),
			[]string{
				"InvalidParamsAreRefusedAndNothingIsMade", "InvalidParamsLeaveAnInstanceAlone", "OneContainersFailureIsNotAnothers",
			},
		},
		"says that params are wrong and not which": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return vague{b} }),
			[]string{"InvalidParamsAreRefusedAndNothingIsMade"},
		},
		"quotes user data in errors": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return quotes{b} }),
			[]string{"InvalidParamsAreRefusedAndNothingIsMade", "CancelledCallsAreErrorsAndDoNothing"},
		},
		"cuts long names": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker {
				return renames{b, func(id string) string { return cutID(id, 63) }}
			}),
			[]string{"Issue/LongNamesWorkAndDoNotClash"},
		},
		"names instances by the last number": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return renames{b, lastNumber} }),
			[]string{"NestedContainersHaveInstancesOfTheirOwn", "Issue/LongNamesWorkAndDoNotClash"},
		},
		"one at a time or an error": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return &busy{Broker: b} }),
			[]string{"ManyContainersAtOnce", "OneContainersFailureIsNotAnothers"},
		},
		"gives interfaces other addresses": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return otherMAC{b} }),
			[]string{"StartedInstanceRunsAndIsListed"},
		},
		"has less memory than asked for": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return small{b} }),
			[]string{"StartedInstanceRunsAndIsListed"},
		},
		"refuses what cannot be cancelled": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return wantsCancel{b} }),
			[]string{"Issue/ContextThatNeverEnds"},
		},
		"hangs when started with a cancelled context": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker { return hangs{b} }),
			[]string{"CancelledCallsAreErrorsAndDoNothing", "EndedDeadlineIsAnError"},
		},
		"shares its interfaces": {
			brokers(func(_ *fakes.Host, b container.Broker) container.Broker {
				return &shares{Broker: b, given: map[string][]facade.NetworkInterface{}}
			}),
			[]string{"ParamsAreNotShared"},
		},
	}
}

func TestBrokenBackendsAreCaught(t *testing.T) {
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			var seenBy []string
			for _, check := range backendtest.Checks() {
				synctest.Test(t, func(t *testing.T) {
					h := harness(slow(), v.broken)
					h.Params = withInterface
					h.Settings = facade.ContainerManagerConfig{}
					h.Budget, h.Prompt, h.Poll, h.Parallel = time.Minute, time.Second, time.Second, 4
					if run(t, check, h).failed() {
						seenBy = append(seenBy, check.Name)
					}
					time.Sleep(time.Hour) // for calls that were left behind
				})
			}
			for _, want := range v.seenBy {
				if !slices.Contains(seenBy, want) {
					t.Errorf("%s does not see it; %q do", want, seenBy)
				}
			}
		})
	}
}

// Hooks that tell of a broken host are heard.
func TestBrokenHooksAreCaught(t *testing.T) {
	tests := map[string]struct {
		change func(*backendtest.Harness, *fakes.Host)
		seenBy string
	}{
		"forgets at a restart": {
			func(h *backendtest.Harness, _ *fakes.Host) {
				h.Restart = func() (container.Backend, error) { return full(newHost()), nil }
			},
			"RestartKeepsEverything",
		},
		"fails to restart": {
			func(h *backendtest.Harness, _ *fakes.Host) {
				h.Restart = func() (container.Backend, error) { return container.Backend{}, errors.New("no") }
			},
			"RestartKeepsEverything",
		},
		"restarts into nothing": {
			func(h *backendtest.Harness, _ *fakes.Host) {
				h.Restart = func() (container.Backend, error) { return container.Backend{}, nil }
			},
			"RestartKeepsEverything",
		},
		"another count each time": {
			func(h *backendtest.Harness, _ *fakes.Host) {
				n := 0
				h.Initialised = func() int { n++; return n }
			},
			"InitialiseTwiceChangesNothing",
		},
		"unsupported is any error": {
			func(h *backendtest.Harness, _ *fakes.Host) {
				h.Unsupported = initialise(func(context.Context) error { return errors.New("no such device") })
			},
			"Issue/UnsupportedIsSaidEachTime",
		},
		"half-made and running": {
			func(h *backendtest.Harness, host *fakes.Host) {
				h.HalfMake = func(id string) error { host.AddInstance(id, true); return nil }
			},
			"HalfMadeInstanceIsListedAndStops",
		},
		"the daemon is lost": {
			func(h *backendtest.Harness, host *fakes.Host) {
				h.RestartDaemon = func() error { host.Uninstall(container.LXD); return nil }
			},
			"Issue/DaemonRestartsInTheMiddle",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			i := slices.IndexFunc(backendtest.Checks(), func(c backendtest.Check) bool { return c.Name == test.seenBy })
			synctest.Test(t, func(t *testing.T) {
				host := slow()
				h := harness(host, full)
				h.Budget, h.Prompt, h.Poll = time.Minute, time.Second, time.Second
				test.change(&h, host)
				if !run(t, backendtest.Checks()[i], h).failed() {
					t.Errorf("%s does not see it", test.seenBy)
				}
			})
		})
	}
}

// The variants. Each is the fake's broker with one method, or a few, done wrong.

// seconds has another name for each further instance of a container.
type seconds struct {
	container.Broker
	mu   sync.Mutex
	made map[string]int
}

func (b *seconds) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made[p.ContainerID]++
	if n := b.made[p.ContainerID]; err == nil && n > 1 {
		result.InstanceID += container.InstanceID(fmt.Sprintf("-again-%d", n))
	}
	return result, err
}

func (b *seconds) AllInstances(ctx context.Context) ([]container.Instance, error) {
	list, err := b.Broker.AllInstances(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range slices.Clone(list) {
		for n := 2; n <= b.made[i.ContainerID]; n++ {
			again := i
			again.ID += container.InstanceID(fmt.Sprintf("-again-%d", n))
			list = append(list, again)
		}
	}
	return list, err
}

type halfIsEnough struct {
	container.Broker
	host *fakes.Host
}

func (b halfIsEnough) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if _, ok := b.host.Params(p.ContainerID); ok && p.Validate() == nil {
		return container.StartResult{InstanceID: fakes.InstanceID(p.ContainerID)}, ctx.Err()
	}
	return b.Broker.StartInstance(ctx, p)
}

type exists struct {
	container.Broker
	host *fakes.Host
}

func (b exists) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if _, ok := b.host.Params(p.ContainerID); ok {
		return container.StartResult{}, errors.AlreadyExistsf("instance")
	}
	return b.Broker.StartInstance(ctx, p)
}

type hides struct{ container.Broker }

func (b hides) AllInstances(ctx context.Context) ([]container.Instance, error) {
	list, err := b.Broker.AllInstances(ctx)
	return slices.DeleteFunc(list, func(i container.Instance) bool { return !i.Running }), err
}

type halfStays struct {
	container.Broker
	host *fakes.Host
}

func (b halfStays) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	for _, i := range b.host.Instances() {
		if slices.Contains(ids, i.ID) && !i.Running {
			return make([]error, len(ids))
		}
	}
	return b.Broker.StopInstances(ctx, ids...)
}

type listsAll struct {
	container.Broker
	host *fakes.Host
}

func (b listsAll) AllInstances(ctx context.Context) ([]container.Instance, error) {
	list, err := b.Broker.AllInstances(ctx)
	for _, id := range b.host.Foreign(container.LXD) {
		list = append(list, container.Instance{ID: id, ContainerID: "0/lxd/0", Running: true})
	}
	return list, err
}

type remembers struct {
	container.Broker
	mu   sync.Mutex
	made map[string]bool
}

func (b *remembers) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	b.mu.Lock()
	b.made[p.ContainerID] = true
	b.mu.Unlock()
	return b.Broker.StartInstance(ctx, p)
}

func (b *remembers) AllInstances(ctx context.Context) ([]container.Instance, error) {
	list, err := b.Broker.AllInstances(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(list, func(i container.Instance) bool { return !b.made[i.ContainerID] }), err
}

type absenceFails struct {
	container.Broker
	host *fakes.Host
}

func (b absenceFails) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	there := b.host.Instances()
	results := b.Broker.StopInstances(ctx, ids...)
	for n, id := range ids {
		if !slices.ContainsFunc(there, func(i container.Instance) bool { return i.ID == id }) {
			results[n] = errors.NotFoundf("instance %q", id)
		}
	}
	return results
}

type stopsOne struct{ container.Broker }

func (b stopsOne) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	results := make([]error, len(ids))
	if len(ids) > 0 {
		results[0] = b.Broker.StopInstances(ctx, ids[0])[0]
	}
	return results
}

type stopsAll struct {
	container.Broker
	host *fakes.Host
}

func (b stopsAll) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	for _, i := range b.host.Instances() {
		b.host.Vanish(i.ContainerID)
	}
	return b.Broker.StopInstances(ctx, ids...)
}

type short struct{ container.Broker }

func (b short) StopInstances(ctx context.Context, ids ...container.InstanceID) []error {
	results := b.Broker.StopInstances(ctx, ids...)
	return results[:max(len(results)-1, 0)]
}

type deaf struct{ container.Broker }

func (b deaf) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	return b.Broker.StartInstance(context.WithoutCancel(ctx), p)
}

type fillsIn struct{ container.Broker }

func (b fillsIn) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if p.Validate() != nil {
		p = withInterface("0/lxd/7")
	}
	return b.Broker.StartInstance(ctx, p)
}

type vague struct{ container.Broker }

func (b vague) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if p.Validate() != nil {
		return container.StartResult{}, errors.NotValidf("params")
	}
	return b.Broker.StartInstance(ctx, p)
}

type quotes struct{ container.Broker }

func (b quotes) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, p)
	return result, errors.Annotatef(err, "instance with user data %s", p.Info.UserData.Reveal())
}

// renames keeps each instance under another container's name.
type renames struct {
	container.Broker
	name func(string) string
}

func cutID(id string, n int) string {
	if len(id) <= n {
		return id
	}
	// A cut that is still an id, so that the fake takes it.
	parts := strings.Split(id, "/")
	for len(strings.Join(parts, "/")) > n {
		parts = parts[:len(parts)-2]
	}
	return strings.Join(parts, "/")
}

// lastNumber is the id of the container of that number on the machine itself.
func lastNumber(id string) string {
	parsed, err := container.ParseID(id)
	if err != nil {
		return id
	}
	parsed.Host = "0"
	return parsed.String()
}

func (b renames) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	p.ContainerID = b.name(p.ContainerID)
	return b.Broker.StartInstance(ctx, p)
}

type busy struct {
	container.Broker
	mu sync.Mutex
}

func (b *busy) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if !b.mu.TryLock() {
		return container.StartResult{}, errors.New("busy")
	}
	defer b.mu.Unlock()
	return b.Broker.StartInstance(ctx, p)
}

type otherMAC struct{ container.Broker }

func (b otherMAC) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, p)
	for i := range result.Interfaces {
		result.Interfaces[i].MAC = "00:16:3e:ff:ff:ff"
	}
	return result, err
}

type small struct{ container.Broker }

func (b small) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, p)
	result.Hardware.Memory = 1
	return result, err
}

type wantsCancel struct{ container.Broker }

func (b wantsCancel) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if ctx.Done() == nil {
		return container.StartResult{}, errors.NotValidf("nil cancel channel")
	}
	return b.Broker.StartInstance(ctx, p)
}

// hangs comes back in the end, so that its test does.
type hangs struct{ container.Broker }

func (b hangs) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	if ctx.Err() != nil {
		time.Sleep(10 * time.Minute)
	}
	return b.Broker.StartInstance(ctx, p)
}

type shares struct {
	container.Broker
	mu    sync.Mutex
	given map[string][]facade.NetworkInterface
}

func (b *shares) StartInstance(ctx context.Context, p container.StartParams) (container.StartResult, error) {
	result, err := b.Broker.StartInstance(ctx, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given[p.ContainerID] == nil {
		b.given[p.ContainerID] = p.Interfaces
	}
	result.Interfaces = b.given[p.ContainerID]
	return result, err
}
