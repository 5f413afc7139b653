package leader

import (
	"slices"
	"sync"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"
	"github.com/juju/worker/v3/dependency"
)

// ManifoldConfig says how an election is wired into an agent's dependency
// engine.
type ManifoldConfig struct {
	// ClientName is the name of the manifold that serves the client, as a
	// *kubernetes.Interface. It is empty when Config has a Client.
	ClientName string
	// Config is the worker's, without a Client when there is a ClientName.
	Config Config
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, and the rule, or nil.
func (c ManifoldConfig) Validate() error {
	switch {
	case c.ClientName == "" && c.Config.Client == nil:
		return errors.NotValidf("empty ClientName and nil Client (want one of them)")
	case c.ClientName != "" && c.Config.Client != nil:
		return errors.NotValidf("ClientName and Client (want one of them)")
	}
	return c.Config.validateOthers()
}

// ElectionManifold returns a manifold that stands for election: its worker is a
// [Worker], its output a **Term. It runs in every agent. A config that does not
// validate is an error of its start. A term that was lost bounces it, and so it
// stands for election again.
func ElectionManifold(config ManifoldConfig) dependency.Manifold {
	var inputs []string
	if config.ClientName != "" {
		inputs = []string{config.ClientName}
	}
	return dependency.Manifold{
		Inputs: inputs,
		Start:  config.start,
		Output: electionOutput,
		Filter: func(err error) error {
			if errors.Is(err, ErrLost) {
				return dependency.ErrBounce
			}
			return err
		},
	}
}

func (c ManifoldConfig) start(context dependency.Context) (worker.Worker, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Annotate(err, "leader election manifold")
	}
	config := c.Config
	if c.ClientName != "" {
		if err := context.Get(c.ClientName, &config.Client); err != nil {
			return nil, errors.Trace(err)
		}
	}
	w, err := New(config)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return w, nil
}

func electionOutput(in worker.Worker, out any) error {
	w, ok := in.(*Worker)
	if !ok {
		return errors.NotValidf("leader election's worker of type %T", in)
	}
	term, ok := out.(**Term)
	if !ok {
		return errors.NotValidf("leader election's output of type %T (want **leader.Term; "+
			"a manifold that depends on leadership names that of leader.Manifold, not this one)", out)
	}
	*term = w.term
	return nil
}

// Manifold returns a manifold that is there only while this agent leads, by the
// election of the given name. Until then its start waits, as its state says:
// "starting". Dependents ask for it with nil, or are wrapped.
func Manifold(electionName string) dependency.Manifold {
	return dependency.Manifold{
		Inputs: []string{electionName},
		Start: func(context dependency.Context) (worker.Worker, error) {
			var term *Term
			if err := context.Get(electionName, &term); err != nil {
				return nil, errors.Trace(err)
			}
			// Nothing else in an engine can start its dependents when they can
			// run, other than that a worker starts.
			select {
			case <-term.Elected():
			case <-term.Over():
			case <-context.Abort():
			}
			if !term.Leading() {
				return nil, errors.Annotate(dependency.ErrMissing, "not leading")
			}
			return newReign(term)
		},
		Output: func(in worker.Worker, out any) error {
			r, ok := in.(*reign)
			if !ok {
				return errors.NotValidf("leader's worker of type %T", in)
			}
			target, ok := out.(**reign)
			if !ok {
				return errors.NotValidf("leader's output of type %T (want nil, or leader.Wrap)", out)
			}
			*target = r
			return nil
		},
	}
}

// reign is the worker that is there while the term is under way. It ends with the
// term and not with the election's worker, which waits for the dependents: their
// end comes of this one's.
type reign struct {
	catacomb catacomb.Catacomb
	term     *Term
}

func newReign(term *Term) (worker.Worker, error) {
	r := &reign{term: term}
	if err := catacomb.Invoke(catacomb.Plan{Site: &r.catacomb, Work: r.loop}); err != nil {
		return nil, errors.Trace(err)
	}
	return r, nil
}

func (r *reign) loop() error {
	select {
	case <-r.catacomb.Dying():
		return r.catacomb.ErrDying()
	case <-r.term.Over():
		// The next election restarts it.
		return errors.Annotate(dependency.ErrMissing, "leading no longer")
	}
}

// Kill is part of worker.Worker.
func (r *reign) Kill() { r.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (r *reign) Wait() error { return r.catacomb.Wait() }

// Wrap returns the manifold as one that runs only while this agent leads:
// leaderName is the name of a [Manifold]. Else its start is a
// dependency.ErrMissing. All else about it stays as it is. The Lease is released
// only when its worker has stopped.
func Wrap(manifold dependency.Manifold, leaderName string) dependency.Manifold {
	wrapped := manifold
	wrapped.Inputs = append(slices.Clone(manifold.Inputs), leaderName)
	wrapped.Start = func(context dependency.Context) (worker.Worker, error) {
		var r *reign
		if err := context.Get(leaderName, &r); err != nil {
			return nil, errors.Trace(err)
		}
		if !r.term.enter() {
			return nil, errors.Annotate(dependency.ErrMissing, "leading no longer")
		}
		leave := sync.OnceFunc(r.term.leave)
		started := false
		defer func() {
			if !started { // an error or a panic
				leave()
			}
		}()
		w, err := manifold.Start(context)
		if err != nil {
			return nil, err // the manifold's own, as without the wrapping
		}
		started = true
		return newTenant(w, leave), nil
	}
	if manifold.Output != nil {
		wrapped.Output = func(in worker.Worker, out any) error {
			if t, ok := in.(interface{ inner() worker.Worker }); ok {
				in = t.inner()
			}
			return manifold.Output(in, out)
		}
	}
	return wrapped
}

// tenant is a worker that leaves the term when it has stopped. That is seen by
// whoever waits for it, as the engine does.
type tenant struct {
	worker.Worker
	leave func()
}

// reportingTenant is one of a worker that reports.
type reportingTenant struct {
	tenant
	dependency.Reporter
}

func newTenant(w worker.Worker, leave func()) worker.Worker {
	t := tenant{w, leave}
	if reporter, ok := w.(dependency.Reporter); ok {
		return &reportingTenant{t, reporter}
	}
	return &t
}

// Wait is part of worker.Worker.
func (t *tenant) Wait() error {
	defer t.leave()
	return t.Worker.Wait()
}

func (t *tenant) inner() worker.Worker { return t.Worker }
