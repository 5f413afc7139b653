package containersetup

// Phase is how far the preparation of a type has come: what is done next, or
// what it has ended in.
type Phase string

const (
	// PhaseIdle: nobody has asked for a container of the type.
	PhaseIdle Phase = "idle"
	// PhaseSettings: the controller is asked for the type's settings.
	PhaseSettings Phase = "settings"
	// PhaseInitialise: the host is prepared, under the machine lock.
	PhaseInitialise Phase = "initialise"
	// PhaseNetwork: the host's network, which may have changed, is observed
	// and published.
	PhaseNetwork Phase = "network"
	// PhaseBroker: the back end is connected to.
	PhaseBroker Phase = "broker"
	// PhaseProvisioner: the provisioner is started.
	PhaseProvisioner Phase = "provisioner"
	// PhaseReady: the type is prepared, and its provisioner runs.
	PhaseReady Phase = "ready"
	// PhaseRefused: this machine can never have containers of the type.
	PhaseRefused Phase = "refused"
)

// Phases returns every phase that there is, in the order in which they come.
func Phases() []Phase {
	return []Phase{
		PhaseIdle, PhaseSettings, PhaseInitialise, PhaseNetwork,
		PhaseBroker, PhaseProvisioner, PhaseReady, PhaseRefused,
	}
}

// progress is what is known of the preparation of a type.
type progress struct {
	wanted      bool // somebody asked for a container that is not gone
	refused     bool
	settings    bool
	initialised bool
	published   bool
	broker      bool
	started     bool
}

// next says what to do for a type of which this much is done. Phases come in
// order, and none is repeated once it is done.
func (p progress) next() Phase {
	switch {
	case p.refused:
		return PhaseRefused
	case p.started:
		return PhaseReady
	case !p.wanted:
		return PhaseIdle
	case !p.settings:
		return PhaseSettings
	case !p.initialised:
		return PhaseInitialise
	case !p.published:
		return PhaseNetwork
	case !p.broker:
		return PhaseBroker
	}
	return PhaseProvisioner
}

// completed returns the progress after a phase succeeded.
func (p progress) completed(phase Phase) progress {
	switch phase {
	case PhaseSettings:
		p.settings = true
	case PhaseInitialise:
		p.initialised = true
	case PhaseNetwork:
		p.published = true
	case PhaseBroker:
		p.broker = true
	case PhaseProvisioner:
		p.started = true
	}
	return p
}
