package provisioner

import (
	"context"
	"log/slog"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/internal/batch"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// lookAgain is the kind of error of a pass whose observations no longer hold:
// somebody changed the operator's configuration, or the application vanished
// between two reads. It is no failure; the pass begins again.
const lookAgain = errors.ConstError("observation is out of date")

// maxLooks is how often a pass begins before it counts as failed after all, so
// that two workers cannot keep each other busy without a pause.
const maxLooks = 3

// result is how a pass ended and when the next one is to be.
type result struct {
	outcome Outcome
	// after is the delay until the next look; for failures the back-off
	// decides, unless it is longer. Zero with OutcomeSettled is never.
	after time.Duration
	err   error
	// would is what a dry run did not do.
	would string
	// terminating is since when a deletion is awaited.
	terminating time.Time
}

// pass is one look at one application: observe, decide, act.
type pass struct {
	w     *Worker
	app   string
	ctx   context.Context
	calls *deadline
	// memory is what is remembered of the application; only the pass that
	// holds its key touches it.
	memory *memory
	seen   observed
}

// memory is what is remembered of an application from pass to pass. All of it
// can be lost: it saves work, or spares the world repetitions.
type memory struct {
	// inputs and files are digests of stored files that were found to be
	// what would be rendered and known to the controller, and of the inputs
	// for which they are. remembered says that there are such;
	// renewAt is when that stops being true by itself.
	inputs, files uint64
	remembered    bool
	renewAt       time.Time
	// expires is when its certificate ends to work, as last seen.
	expires time.Time
	// generation is under which these files are stored; empty when it is not
	// known, or when something went wrong since they were seen.
	generation string

	// told is the password that this worker told the controller last, kept
	// until the operator is settled.
	told facade.Secret

	// terminatingSince is when its deletion was first seen.
	terminatingSince time.Time

	// issueAttempts and issueNext space out requests for certificates.
	issueAttempts int
	issueNext     time.Time
	issueErr      error
}

// run looks until the observations held for the whole of a look.
func (p *pass) run() result {
	for look := 1; ; look++ {
		res := p.look()
		if !errors.Is(res.err, lookAgain) || look == maxLooks {
			return res
		}
		// Retried at once, by this loop.
	}
}

// look observes, one question at a time, until it is decided what to do, and
// does it.
func (p *pass) look() result {
	p.seen = observed{providers: p.w.config.StorageProviders, glance: p.glancing()}
	if !p.w.config.Owns(p.app) {
		return result{outcome: OutcomeForgotten}
	}
	if err := facade.ValidateApplicationName(p.app); err != nil {
		return permanent(err)
	}
	for {
		next, reason := decide(p.seen)
		var err error
		switch next {
		case readLife:
			err = p.readLife()
		case readFormat:
			err = p.readFormat()
		case readState:
			err = p.readState()
		case readOperator:
			err = p.readOperator()
		case glanceOperator:
			err = p.glanceOperator()
		case readInfo:
			err = p.readInfo()
		case keepOperator:
			if res, done := p.keep(); done {
				return res
			}
			// Else there is more to be seen.
		case ensureOperator:
			return p.ensure()
		case deleteOperator:
			return p.delete()
		case awaitEnd:
			return p.await("the previous operator is still terminating")
		case awaitCharm:
			// Retried with back-off: the charm is on its way.
			return result{outcome: OutcomeWaiting, err: errors.NotFoundf("charm of application %q", p.app)}
		case leaveAlone:
			return result{outcome: OutcomeSettled}
		case forgetIt:
			if !p.memory.terminatingSince.IsZero() {
				p.w.log(p.ctx, slog.LevelInfo, "operator removed", p.app)
			}
			return result{outcome: OutcomeForgotten}
		case refuseIt:
			return permanent(reason)
		}
		if err != nil {
			return failed(err)
		}
	}
}

// failed is retried with back-off.
func failed(err error) result { return result{outcome: OutcomeFailed, err: err} }

// permanent is retried at the longest delay, or when something changes.
func permanent(err error) result { return result{outcome: OutcomePermanent, err: err} }

func (p *pass) readLife() error {
	if bulk, ok := p.w.bulk.get(); ok {
		err := p.readBulk(bulk)
		if !p.w.bulk.refused(err) {
			return err
		}
	}
	life, err := p.calls.life(p.app)
	if errors.Is(err, errors.NotFound) {
		p.seen.life = &lifeSeen{gone: true}
		return nil
	}
	p.seen.life = &lifeSeen{life: life}
	return errors.Annotate(err, "reading life")
}

// readBulk reads life and format in one round trip, together with whoever else
// is reading.
func (p *pass) readBulk(bulk *batch.Batcher[string, facade.ApplicationInfo]) error {
	info, err := p.calls.info(bulk, p.app)
	if errors.Is(err, errors.NotFound) {
		p.seen.life = &lifeSeen{gone: true}
		return nil
	}
	if err != nil {
		return errors.Annotate(err, "reading life and charm")
	}
	p.seen.life = &lifeSeen{life: info.Life}
	switch {
	case errors.Is(info.FormatErr, errors.NotFound):
		p.seen.format = &formatSeen{gone: true}
	case info.FormatErr != nil:
		// Left to be asked for by itself, if it matters at all.
	case info.Format < 1:
		return errors.NotValidf("Format %d of application %q", info.Format, p.app)
	default:
		p.seen.format = &formatSeen{format: info.Format}
	}
	return nil
}

func (p *pass) readFormat() error {
	charm, err := p.calls.charmInfo(p.app)
	if errors.Is(err, errors.NotFound) {
		p.seen.format = &formatSeen{gone: true}
		return nil
	}
	if err != nil {
		return errors.Annotate(err, "reading charm info")
	}
	if charm.Name == "" && len(charm.Series) == 0 && len(charm.Bases) == 0 {
		// Taken for an answer it would be a charm of format 1, and what
		// belongs to one of format 2 would be deleted.
		return errors.NotValidf("charm info of application %q without Name, Series and Bases", p.app)
	}
	p.seen.format = &formatSeen{format: charm.Format()}
	return nil
}

func (p *pass) readState() error {
	state, err := p.calls.operatorExists(p.app)
	p.seen.state = &state
	return errors.Annotate(err, "looking for the operator")
}

func (p *pass) readOperator() error {
	op, err := p.calls.operator(p.app)
	switch {
	case errors.Is(err, errors.NotFound):
		p.seen.operator = &operatorSeen{}
		return nil
	case err != nil:
		return errors.Annotate(err, "reading the operator")
	case op == nil || op.Config == nil:
		return errors.NotValidf("operator of %q without Config", p.app)
	}
	p.seen.operator = &operatorSeen{operator: op}
	return nil
}

func (p *pass) readInfo() error {
	info, err := p.calls.provisioningInfo(p.app)
	if errors.Is(err, errors.NotFound) {
		// It was there a moment ago; what is to be done has changed.
		return errors.WithType(errors.Annotate(err, "reading provisioning info"), lookAgain)
	}
	if err != nil {
		return errors.Annotate(err, "reading provisioning info")
	}
	// Without a provider is decided on: it is permanent, the rest is not.
	if info.CharmStorage == nil || info.CharmStorage.Provider != "" {
		if err := info.Validate(); err != nil {
			return err
		}
	}
	p.seen.info = &info
	return nil
}

// await looks again soon at a deletion that is under way, without holding
// anybody up meanwhile.
func (p *pass) await(what string) result {
	now := p.w.config.Clock.Now()
	if p.memory.terminatingSince.IsZero() {
		p.memory.terminatingSince = now
	}
	res := result{
		outcome:     OutcomeWaiting,
		after:       p.w.config.TerminationPoll,
		err:         errors.New(what),
		terminating: p.memory.terminatingSince,
	}
	if timeout := p.w.config.TerminationTimeout; now.Sub(p.memory.terminatingSince) > timeout {
		// The age is the report's to tell: a reason that changes with
		// every look would be logged with every look.
		res.outcome = OutcomeStuck
		res.err = errors.Errorf("%s after more than %s", what, timeout)
	}
	return res
}

// delete starts or continues the deletion of the operator of an application
// that is dead or gone.
func (p *pass) delete() result {
	if p.w.config.DryRun {
		return result{outcome: OutcomeSettled, would: "delete the operator"}
	}
	if err := p.calls.deleteOperator(p.app); err != nil {
		return failed(errors.Annotate(err, "deleting the operator"))
	}
	*p.memory = memory{terminatingSince: p.memory.terminatingSince} // the rest was about the operator that goes
	return p.await("the operator is being deleted")
}

// ensure makes the operator of a living application be there and be as it
// should, without its controller and it ever disagreeing about the password.
func (p *pass) ensure() result {
	p.memory.terminatingSince = time.Time{}
	now := p.w.config.Clock.Now()
	in := p.inputs()
	stored := &operator.Config{}
	if p.seen.operator.operator != nil {
		stored = p.seen.operator.operator.Config
	}
	exists := p.seen.state.Exists

	inputs, files := in.digest(p.w.seed), digestFiles(p.w.seed, stored)
	if exists && p.memory.remembers(inputs, files, now) {
		// What is stored is what would be rendered, and was told.
		return p.finish(stored, newConfig(in.info, stored.AgentConf, stored.OperatorInfo, stored.Generation), nil)
	}

	previous := parseStored(stored)
	password, facts := p.passwordFacts(previous)
	plan := planPassword(facts)
	if p.w.config.DryRun {
		return p.dryRun(in, previous, password, plan, stored, now)
	}

	operatorInfo, validity, issueErr := p.certificate(in, stored, now)
	if operatorInfo.IsZero() {
		return p.failedIssue(issueErr, now)
	}
	if plan.mint {
		password = mintPassword()
	}
	generation := stored.Generation
	if stager, ok := p.w.stager.get(); plan.stage && ok {
		staged, err := p.stage(stager, in, previous, password, plan.mark, operatorInfo, generation)
		switch {
		case p.w.stager.refused(err):
			// Then the controller is told first.
		case err != nil:
			return failed(err)
		default:
			generation = staged
		}
	}
	agentConf, err := renderConf(in, previous, password, false)
	if err != nil {
		return failed(err)
	}
	if plan.tell {
		// Remembered before the call: also one that seems to fail may
		// have told. Then another one that was told before is so no more.
		p.memory.told, p.memory.remembered = password, false
		if err := p.tell(password); err != nil {
			return failed(err)
		}
	}
	cfg := newConfig(in.info, agentConf, operatorInfo, generation)
	p.memory.remember(inputs, files, validity, exists && !plan.tell &&
		agentConf.Equal(stored.AgentConf) && operatorInfo.Equal(stored.OperatorInfo))
	return p.finish(stored, cfg, issueErr)
}

func (m *memory) remembers(inputs, files uint64, now time.Time) bool {
	return m.settled(now) && m.inputs == inputs && m.files == files
}

func (m *memory) remember(inputs, files uint64, validity operator.Validity, same bool) {
	m.inputs, m.files, m.remembered = inputs, files, same
	m.renewAt, m.expires = validity.RenewAt, validity.Expires
}

func (p *pass) inputs() *inputs {
	agent := p.w.config.Agent
	return &inputs{
		app:            p.app,
		dataDir:        agent.DataDir(),
		logDir:         agent.LogDir(),
		controllerUUID: agent.ControllerUUID(),
		modelUUID:      p.w.config.ModelUUID,
		caCert:         agent.CACert(),
		info:           p.seen.info,
	}
}

// passwordFacts returns the stored password, if there is one, and what the plan
// for it depends on.
func (p *pass) passwordFacts(previous *agentconf.Config) (facade.Secret, passwordFacts) {
	facts := passwordFacts{exists: p.seen.state.Exists, part: p.seen.operator.operator != nil}
	_, facts.canStage = p.w.stager.get()
	var password facade.Secret
	if previous != nil {
		password = previous.Password()
		_, facts.untold = previous.Values[untoldMark]
	}
	facts.stored = !password.IsZero()
	facts.misled = !p.memory.told.IsZero() && !p.memory.told.Equal(password)
	return password, facts
}

// certificate returns the operator.yaml to use and for how long its
// certificate can be used. With an error and a file, the file is the stored one, due but still
// good; with an error and no file there is nothing that an operator could use.
func (p *pass) certificate(in *inputs, stored *operator.Config, now time.Time) (facade.Secret, operator.Validity, error) {
	facts := checkStoredCertificate(in, stored, now)
	if facts.usable && now.Before(facts.validity.RenewAt) {
		p.memory.issueAttempts, p.memory.issueErr = 0, nil
		return stored.OperatorInfo, facts.validity, nil
	}
	operatorInfo, validity, err := p.issue(in, now)
	if err != nil && facts.usable && !errors.Is(err, lookAgain) {
		return stored.OperatorInfo, facts.validity, err
	}
	return operatorInfo, validity, err
}

// issue asks for a certificate, but not again soon after one was refused: an
// issuer that returns what does not fit would be asked for ever.
func (p *pass) issue(in *inputs, now time.Time) (facade.Secret, operator.Validity, error) {
	if p.memory.issueErr != nil && p.memory.issueWait(now) > 0 {
		return facade.Secret{}, operator.Validity{}, p.memory.issueErr
	}
	cert, err := p.calls.issueCertificate(p.app)
	if errors.Is(err, errors.NotFound) {
		return facade.Secret{}, operator.Validity{}, errors.WithType(errors.Annotate(err, "issuing a certificate"), lookAgain)
	}
	var operatorInfo facade.Secret
	var validity operator.Validity
	if err == nil {
		operatorInfo, validity, err = acceptCertificate(in, cert, now)
	}
	if err != nil {
		err = errors.Annotate(err, "issuing a certificate")
		p.memory.issueNext = now.Add(issueBackoff(p.memory.issueAttempts))
		p.memory.issueAttempts++
		p.memory.issueErr = err
		return facade.Secret{}, operator.Validity{}, err
	}
	p.memory.issueAttempts, p.memory.issueErr = 0, nil
	return operatorInfo, validity, nil
}

// issueWait is for how long no certificate is asked for. It is no longer than
// what the failures explain, also when the clock was set back meanwhile.
func (m *memory) issueWait(now time.Time) time.Duration {
	longest := now.Add(issueBackoff(max(m.issueAttempts-1, 0)))
	if m.issueNext.After(longest) {
		m.issueNext = longest
	}
	return m.issueNext.Sub(now)
}

// issueBackoff grows from a minute to an hour.
func issueBackoff(attempt int) time.Duration {
	return min(time.Minute<<min(attempt, 6), time.Hour)
}

// failedIssue waits until the certificate may be asked for again.
func (p *pass) failedIssue(err error, now time.Time) result {
	if errors.Is(err, lookAgain) {
		return failed(err)
	}
	return result{outcome: OutcomeFailed, err: err, after: p.memory.issueWait(now)}
}

// stage stores the new password before anybody is told of it.
func (p *pass) stage(
	stager operator.Stager, in *inputs, previous *agentconf.Config, password facade.Secret, mark bool, operatorInfo facade.Secret, generation string,
) (string, error) {
	agentConf, err := renderConf(in, previous, password, mark)
	if err != nil {
		return "", err
	}
	cfg := newConfig(in.info, agentConf, operatorInfo, generation)
	staged, err := p.calls.stageOperator(stager, p.app, in.dataDir, cfg)
	if errors.Is(err, operator.ErrConflict) {
		// Another worker staged first; its password is the one.
		return "", errors.WithType(errors.Annotate(err, "staging the operator"), lookAgain)
	}
	return staged, errors.Annotate(err, "staging the operator")
}

// tell makes the controller accept the password.
func (p *pass) tell(password facade.Secret) error {
	err := p.calls.setPassword(facade.ApplicationPassword{Name: p.app, Password: password})
	if errors.Is(err, errors.NotFound) {
		return errors.WithType(errors.Annotate(err, "setting the password"), lookAgain)
	}
	return errors.Annotate(err, "setting the password")
}

// finish ensures the operator and says when to look next. issueErr is why its
// certificate, still good, could not be renewed.
func (p *pass) finish(stored, cfg *operator.Config, issueErr error) result {
	if p.w.config.DryRun {
		return p.wouldEnsure(stored, cfg)
	}
	// Also where its files are remembered, they may be stored under another
	// generation now. It is kept in mind when all went well.
	p.memory.generation = ""
	err := p.calls.ensureOperator(p.app, p.w.config.Agent.DataDir(), cfg)
	switch {
	case err == nil:
	case errors.Is(err, operator.ErrConflict):
		return failed(errors.WithType(errors.Annotate(err, "ensuring the operator"), lookAgain))
	case errors.Is(err, errors.NotValid), errors.Is(err, errors.NotSupported):
		// By the manager's contract no repetition mends these.
		return permanent(errors.Annotate(err, "ensuring the operator"))
	default:
		return failed(errors.Annotate(err, "ensuring the operator"))
	}
	p.memory.told = facade.Secret{}
	p.memory.generation = cfg.Generation
	if !p.seen.state.Exists {
		p.w.log(p.ctx, slog.LevelInfo, "operator created", p.app)
	} else if !p.memory.remembered {
		p.w.log(p.ctx, slog.LevelDebug, "operator ensured", p.app)
	}
	if issueErr != nil {
		return p.failedIssue(issueErr, p.w.config.Clock.Now())
	}
	return p.settled()
}

// settled looks again when the certificate falls due.
func (p *pass) settled() result {
	return result{outcome: OutcomeSettled, after: max(p.memory.renewAt.Sub(p.w.config.Clock.Now()), 1)}
}

// dryRun says what ensure would do, without asking anybody to do it.
func (p *pass) dryRun(
	in *inputs, previous *agentconf.Config, password facade.Secret, plan passwordPlan, stored *operator.Config, now time.Time,
) result {
	facts := checkStoredCertificate(in, stored, now)
	switch {
	case !p.seen.state.Exists:
		return result{outcome: OutcomeSettled, would: "create the operator"}
	case plan.mint:
		return result{outcome: OutcomeSettled, would: "give the operator a new password"}
	case plan.tell:
		return result{outcome: OutcomeSettled, would: "tell the controller the operator's password"}
	case !facts.usable || !now.Before(facts.validity.RenewAt):
		return result{outcome: OutcomeSettled, would: "renew the operator's certificate"}
	}
	agentConf, err := renderConf(in, previous, password, false)
	if err != nil {
		return failed(err)
	}
	return p.wouldEnsure(stored, newConfig(in.info, agentConf, stored.OperatorInfo, stored.Generation))
}

// wouldEnsure is finish for a dry run.
func (p *pass) wouldEnsure(stored, cfg *operator.Config) result {
	if sameConfig(stored, cfg) {
		return result{outcome: OutcomeSettled}
	}
	return result{outcome: OutcomeSettled, would: "update the operator"}
}
