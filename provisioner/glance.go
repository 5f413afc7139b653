package provisioner

import (
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

// How a settled pass gets by without the stored files, where the manager is an
// operator.Glancer. It is a way to say that nothing is to be done, and no other:
// as soon as anything is not as remembered, the pass reads the files and goes
// the way of every pass.

// glancing is how far a pass gets without the stored files.
type glancing uint8

const (
	// readFiles is how to look at an operator of which nothing is known.
	readFiles glancing = iota
	// mayGlance: what is remembered of the files may still be so.
	mayGlance
	// glanced: it is so, as far as the files themselves go. The operator was
	// seen without them.
	glanced
)

// glancing reports what a look may begin with. A dry run compares files, to tell
// what would be done.
func (p *pass) glancing() glancing {
	_, ok := p.w.glancer.get()
	if ok && !p.w.config.DryRun && p.memory.generation != "" && p.memory.settled(p.w.config.Clock.Now()) {
		return mayGlance
	}
	return readFiles
}

// settled reports whether anything is remembered that still holds by itself.
func (m *memory) settled(now time.Time) bool { return m.remembered && now.Before(m.renewAt) }

// glanceOperator looks at the operator without its files.
func (p *pass) glanceOperator() error {
	p.seen.glance = readFiles
	glancer, ok := p.w.glancer.get()
	if !ok {
		return nil
	}
	op, err := p.calls.glanceOperator(glancer, p.app)
	switch {
	case p.w.glancer.refused(err), errors.Is(err, errors.NotFound):
		return nil
	case err != nil:
		return errors.Annotate(err, "glancing at the operator")
	case op == nil || op.Config == nil:
		return errors.NotValidf("glance at the operator of %q without Config", p.app)
	case op.Config.Generation != p.memory.generation:
		return nil // other files, or none
	}
	p.seen.operator, p.seen.glance = &operatorSeen{operator: op}, glanced
	return nil
}

// keep ensures the operator with the files that are stored, if these are what
// would be rendered now. If not, it is not done, and the files are to be read.
func (p *pass) keep() (res result, done bool) {
	glancer, ok := p.w.glancer.get()
	in := p.inputs()
	now := p.w.config.Clock.Now()
	if !ok || !p.memory.settled(now) || p.memory.inputs != in.digest(p.w.seed) {
		p.seen.operator, p.seen.glance = nil, readFiles
		return result{}, false
	}
	p.memory.terminatingSince = time.Time{}
	generation := p.seen.operator.operator.Config.Generation
	cfg := newConfig(in.info, facade.Secret{}, facade.Secret{}, generation)
	// Unless it is kept, the next look is one at everything.
	p.memory.generation = ""
	err := p.calls.keepOperator(glancer, p.app, in.dataDir, cfg)
	switch {
	case err == nil:
		p.memory.generation = generation
		return p.settled(), true
	case errors.Is(err, operator.ErrConflict), errors.Is(err, errors.NotValid), errors.Is(err, errors.NotSupported):
		// Other files were stored since the glance; or it cannot be done, and
		// then EnsureOperator has the last word.
		return failed(errors.WithType(errors.Annotate(err, "keeping the operator"), lookAgain)), true
	}
	return failed(errors.Annotate(err, "keeping the operator")), true
}
