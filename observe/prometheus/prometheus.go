package prometheus

import (
	"log/slog"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/juju/errors"
	client "github.com/prometheus/client_golang/prometheus"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/provisioner"
)

// DefaultNamespace is what the names of all metrics begin with.
const DefaultNamespace = "sutler"

// Config is what a [Metrics] is made from. Only Registerer is required.
type Config struct {
	// Registerer is where the metrics are registered, once, as one collector.
	Registerer client.Registerer
	// Namespace begins every name; "sutler" by default. The alert rules and
	// the dashboard know the default alone.
	Namespace string
	// ConstLabels are on every series, such as the model of one of several
	// Metrics. All Metrics of one Registerer need the same names here.
	ConstLabels map[string]string
	// ApplicationLabels adds series for single applications and containers
	// that are not settled, by name: at most [MaxLabelled] of each. Each
	// collection then also asks the workers for a list.
	ApplicationLabels bool
	// Logger hears of a worker that panics when it is looked at; nil discards.
	Logger *slog.Logger
}

// identifier is what a namespace or the name of a label may be.
var identifier = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, or nil.
func (c Config) Validate() error {
	if c.Registerer == nil {
		return errors.NotValidf("nil Registerer")
	}
	if c.Namespace != "" && !identifier.MatchString(c.Namespace) {
		return errors.NotValidf("Namespace %q", c.Namespace)
	}
	for name, value := range c.ConstLabels {
		switch {
		case !identifier.MatchString(name) || len(name) > 1 && name[:2] == "__":
			return errors.NotValidf("name %q in ConstLabels", name)
		case slices.Contains(labelNames(), name):
			return errors.NotValidf("name %q in ConstLabels, which is a label of these metrics,", name)
		case !utf8.ValidString(value):
			return errors.NotValidf("value of %q in ConstLabels", name)
		}
	}
	return nil
}

// labelNames are those that no constant label may have.
func labelNames() []string {
	return []string{
		"application", "call", "container", "le", "outcome", "phase", "quantile",
		"result", "source", "state", "turn", "type", "watcher", "worker",
	}
}

// Metrics counts what workers do and shows how they stand. It is the collector
// that [New] registered, for Registerer.Unregister. Its methods may be called
// from many goroutines at once.
type Metrics struct {
	families   *families
	operators  *operators
	setup      *setup
	containers *containers
	lock       *lock
}

// New registers metrics. It returns errors.NotValid, naming the field, for a
// config that does not validate, errors.AlreadyExists when the Registerer has
// the same metrics already, and an error for one that refuses otherwise, or
// panics. After an error nothing is registered: there is one collector, which a
// Registerer takes as a whole or not at all.
func New(config Config) (*Metrics, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "metrics config")
	}
	if config.Namespace == "" {
		config.Namespace = DefaultNamespace
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	f := &families{namespace: config.Namespace, constant: config.ConstLabels}
	operators, containers := newOperators(f, config), newContainers(f, config)
	m := &Metrics{
		families:   f,
		operators:  operators,
		containers: containers,
		setup:      newSetup(f, containers, config),
		lock:       newLock(f),
	}
	if err := register(config.Registerer, m); err != nil {
		return nil, errors.Annotate(err, "registering metrics")
	}
	return m, nil
}

// register keeps a Registerer that panics from ending the agent.
func register(registerer client.Registerer, m *Metrics) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Errorf("panic: %v", r)
		}
	}()
	err = registerer.Register(m)
	var already client.AlreadyRegisteredError
	if errors.As(err, &already) {
		// What is there is somebody else's, and stays.
		return errors.AlreadyExistsf("metrics with the same names and constant labels")
	}
	return errors.Trace(err)
}

// Operators is for the Metrics of operator provisioners. It is also a
// provisioner.Attacher, EventMetrics and BatchMetrics.
func (m *Metrics) Operators() provisioner.Metrics { return m.operators }

// Setup is for the Metrics of container-setup handlers. It is also their
// Attacher, EventMetrics and ContainerMetrics: the container provisioners that
// they start are measured with them.
func (m *Metrics) Setup() containersetup.Metrics { return m.setup }

// Describe is part of the Collector that is registered.
func (m *Metrics) Describe(out chan<- *client.Desc) { m.families.describe(out) }

// Collect is part of the Collector that is registered. Gauges are what the
// workers' Status says at that moment.
func (m *Metrics) Collect(out chan<- client.Metric) {
	g := gauges{out: out}
	m.operators.gauge(g)
	m.setup.gauge(g)
	m.containers.gauge(g)
	m.lock.gauge(g)
	// Last, with the series of types that the gauges have made known.
	m.families.collect(out)
}
