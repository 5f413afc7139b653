package operator

import (
	"context"
	"maps"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// ErrConflict is the kind of error of an update that was worked out from an
// older configuration than the one that is stored. Nothing was changed; read
// the configuration again.
const ErrConflict = errors.ConstError("operator configuration conflict")

// Manager keeps operators, one per application.
//
// What one of its methods has changed, every later call of the same manager
// sees, caches notwithstanding: an operator that is read as half made although
// it has started would have its controller told a password that it may have
// changed itself since.
type Manager interface {
	// OperatorExists tells whether the application's operator is fully
	// there, and whether it is being deleted. Absence is no error, and so
	// is a half-made operator: both are the zero State.
	OperatorExists(ctx context.Context, app string) (State, error)

	// Operator describes the application's operator. It also answers for a
	// half-made one of which only the configuration is stored. It returns
	// errors.NotFound when nothing at all is there.
	Operator(ctx context.Context, app string) (*Operator, error)

	// EnsureOperator makes the application's operator be there and be as
	// cfg says, creating or updating it; it may return before the operator
	// has started. agentPath is the agent's data directory as the operator
	// sees it. A second call with an equal cfg changes nothing. A crash at
	// any point leaves what the next call completes. cfg is not kept.
	//
	// It returns ErrConflict by the rule of Config.Generation. It returns
	// errors.NotValid or errors.NotSupported for what no repetition can
	// make succeed.
	EnsureOperator(ctx context.Context, app, agentPath string, cfg *Config) error

	// DeleteOperator starts or continues the deletion of the application's
	// operator and all that belongs to it, also when only a part is there.
	// It does not wait for the end: call it until OperatorExists and
	// Operator find nothing. Deleting what is not there is success.
	DeleteOperator(ctx context.Context, app string) error
}

// Watcher is an optional interface of a [Manager].
type Watcher interface {
	// WatchOperators names the operators of which something that
	// OperatorExists tells, or their stored configuration, changed or
	// vanished. A change of Status alone need not be told. A manager that
	// cannot tell returns errors.NotSupported. The caller owns the watcher.
	WatchOperators(ctx context.Context) (facade.StringsWatcher, error)
}

// Lister is an optional interface of a [Manager].
type Lister interface {
	// Operators names every application of which this manager has an
	// operator or a part of one, in no order.
	Operators(ctx context.Context) ([]string, error)
}

// Stager is an optional interface of a [Manager].
type Stager interface {
	// StageOperator stores cfg without starting, stopping or changing
	// anything that runs, and returns the generation of what it stored. It
	// refuses by the rule of Config.Generation, with ErrConflict: of
	// several that stage a first configuration at once, one wins.
	StageOperator(ctx context.Context, app, agentPath string, cfg *Config) (generation string, err error)
}

// Glancer is an optional interface of a [Manager] that fetches the stored files
// from elsewhere when Operator is called, or that would have to keep them in
// memory for it. Whoever remembers what the files of a generation are asks for
// that alone, and has the operator kept as it is without holding the files.
//
// Such a manager shows generations, and an application's generation comes again
// only with the same files, also after the operator was deleted and made anew.
type Glancer interface {
	// GlanceOperator is Operator without the two files: AgentConf and
	// OperatorInfo are empty, and Generation is the one that Operator would
	// show, not empty where files are stored. It returns errors.NotFound as
	// Operator does. A manager that cannot do this after all returns
	// errors.NotSupported, and is done without as a Glancer.
	GlanceOperator(ctx context.Context, app string) (*Operator, error)

	// KeepOperator is EnsureOperator with the files that are stored under
	// cfg.Generation: in cfg they are empty, and all else there counts, by
	// the rules of [Config.ValidateKeep]. It completes an operator of which
	// only the configuration is there. When the stored generation is
	// another one, or nothing is stored, it returns ErrConflict and has
	// changed nothing.
	KeepOperator(ctx context.Context, app, agentPath string, cfg *Config) error
}

// State is what there is of an operator. The zero State is an operator that is
// absent or only half made.
type State struct {
	// Exists says that the operator is fully there, running or not.
	Exists bool
	// Terminating says that its deletion is really under way. It may be
	// set with or without Exists.
	Terminating bool
}

// Operator describes an operator, or the part of one that is there.
type Operator struct {
	// ID is the manager's own name for it.
	ID string
	// Dying is State.Terminating as it was when this was read.
	Dying bool
	// Status is how its process or pod is doing.
	Status Status
	// Config is what is stored of its configuration: never nil; fields of
	// which nothing is stored are zero.
	Config *Config
}

// Phase is the state of an operator's process or pod.
type Phase string

const (
	// Running is an operator whose process or pod runs.
	Running Phase = "running"
	// Waiting is an operator that is to run and does not yet, or not at
	// the moment; the message says why.
	Waiting Phase = "waiting"
	// Terminated is an operator that has ended.
	Terminated Phase = "terminated"
)

// Status is how an operator's process or pod is doing. The zero Status is not
// known.
type Status struct {
	Phase Phase
	// Message is for people: one line, without secrets.
	Message string
	// Since is when this phase began; zero when not known.
	Since time.Time
}

// Config is what an operator is made from.
//
// Its secrets show themselves as redacted to every marshaller: a manager that
// stores a Config reveals and writes AgentConf and OperatorInfo by itself, in
// private files or objects.
//
// When the stored AgentConf is lost or unreadable, the provisioner makes up a
// new password. An operator that has an agent.conf of its own by then must, when
// the controller refuses its own password, fall back on that of the stored one.
type Config struct {
	// ImageDetails, BaseImageDetails, Version and CharmStorage are as in
	// facade.OperatorProvisioningInfo.
	ImageDetails     facade.ImageDetails
	BaseImageDetails facade.ImageDetails
	Version          string
	CharmStorage     *facade.CharmStorage
	// ResourceTags are put on all that is made for the operator.
	ResourceTags map[string]string

	// AgentConf is the operator's first agent.conf, rendered by
	// operator/agentconf. A manager never lets it replace what the
	// operator wrote itself.
	AgentConf facade.Secret
	// OperatorInfo is the operator's operator.yaml, rendered by
	// Info.Marshal.
	OperatorInfo facade.Secret

	// Generation is the opaque revision of the stored AgentConf and
	// OperatorInfo that the caller was shown by Operator or StageOperator;
	// empty says that it was shown none. A manager with revisions refuses
	// cfg with ErrConflict when the stored revision is another one and
	// what is stored differs from cfg in AgentConf or OperatorInfo; where
	// nothing is stored, that is every one but the empty one. A manager
	// without revisions always shows and ignores the empty one.
	Generation string
}

// Clone returns a copy that shares nothing with c that can be changed. The
// clone of nil is nil.
func (c *Config) Clone() *Config {
	if c == nil {
		return nil
	}
	out := *c
	out.ResourceTags = maps.Clone(c.ResourceTags)
	if c.CharmStorage != nil {
		storage := *c.CharmStorage
		storage.Attributes = maps.Clone(storage.Attributes)
		storage.ResourceTags = maps.Clone(storage.ResourceTags)
		out.CharmStorage = &storage
	}
	return &out
}

// Validate returns errors.NotValid, naming the field, for a configuration that
// no manager can make an operator from.
func (c *Config) Validate() error {
	switch {
	case c == nil:
		return errors.NotValidf("nil operator config")
	case c.AgentConf.IsZero():
		return errors.NotValidf("operator config with empty AgentConf")
	case c.OperatorInfo.IsZero():
		return errors.NotValidf("operator config with empty OperatorInfo")
	}
	return c.validateRest()
}

// ValidateKeep is Validate for [Glancer].KeepOperator: the files are to be empty,
// and Generation is not.
func (c *Config) ValidateKeep() error {
	switch {
	case c == nil:
		return errors.NotValidf("nil operator config")
	case !c.AgentConf.IsZero():
		return errors.NotValidf("operator config to keep with AgentConf")
	case !c.OperatorInfo.IsZero():
		return errors.NotValidf("operator config to keep with OperatorInfo")
	case c.Generation == "":
		return errors.NotValidf("operator config to keep with empty Generation")
	}
	return c.validateRest()
}

// validateRest judges what both have in common.
func (c *Config) validateRest() error {
	if c.CharmStorage != nil && c.CharmStorage.Provider == "" {
		return errors.NotValidf("operator config: CharmStorage without Provider")
	}
	return nil
}
