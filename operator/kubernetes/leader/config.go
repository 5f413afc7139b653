package leader

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/juju/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
)

// Defaults of the durations of a [Config], those of Kubernetes' own components.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultRenewDeadline = 10 * time.Second
	DefaultRetryPeriod   = 2 * time.Second
)

// Config is what a [Worker] stands for election with. Client, Namespace, Name and
// Identity are required. All agents of an election have the same Namespace, Name
// and durations.
type Config struct {
	// Client talks to the cluster. It is not closed. One that others use too
	// should have room in its rate limit: a renewal waits behind their calls.
	Client kubernetes.Interface
	// Namespace and Name are the Lease's. The namespace has to exist; the
	// Lease is made by the first agent that leads, and is left there.
	Namespace, Name string
	// Identity is this agent in the Lease, told from every other that runs at
	// the same time: two agents of one identity both lead. One that an agent
	// keeps when it is started again, such as its tag, lets it lead again at
	// once after a crash.
	Identity string

	// LeaseDuration is how long others wait after the last renewal before one
	// of them takes over: whole seconds, more than RenewDeadline;
	// [DefaultLeaseDuration] by default.
	LeaseDuration time.Duration
	// RenewDeadline is how long this agent leads after the last renewal that
	// succeeded, more than 1.2 times RetryPeriod; [DefaultRenewDeadline] by
	// default. A single call may take half of it.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals, and between two attempts to
	// be elected, which is made up to 2.2 times as long at random;
	// [DefaultRetryPeriod] by default.
	RetryPeriod time.Duration

	// Labels are set on the Lease, beside those that others have set.
	Labels map[string]string
	// Logger hears who leads, and of trouble with the Lease; nil discards.
	Logger *slog.Logger
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, and the rule, or nil.
func (c Config) Validate() error {
	if c.Client == nil {
		return errors.NotValidf("nil Client")
	}
	return c.validateOthers()
}

// validateOthers is Validate without the Client, which a manifold may get later.
func (c Config) validateOthers() error {
	for _, name := range []struct {
		field, value string
		check        func(string) []string
	}{
		{"Namespace", c.Namespace, validation.IsDNS1123Label},
		{"Name", c.Name, validation.IsDNS1123Subdomain},
	} {
		if name.value == "" {
			return errors.NotValidf("empty %s", name.field)
		}
		if bad := name.check(name.value); len(bad) > 0 {
			return errors.NotValidf("%s %q (%s)", name.field, name.value, bad[0])
		}
	}
	if c.Identity == "" {
		return errors.NotValidf("empty Identity")
	}
	if err := c.validateDurations(); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		bad := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(c.Labels[key])...)
		if len(bad) > 0 {
			return errors.NotValidf("Labels %q=%q (%s)", key, c.Labels[key], bad[0])
		}
	}
	return nil
}

func (c Config) validateDurations() error {
	switch {
	case c.LeaseDuration < 0:
		return errors.NotValidf("negative LeaseDuration")
	case c.RenewDeadline < 0:
		return errors.NotValidf("negative RenewDeadline")
	case c.RetryPeriod < 0:
		return errors.NotValidf("negative RetryPeriod")
	}
	c = c.withDefaults()
	switch {
	case c.LeaseDuration%time.Second != 0: // the Lease has whole seconds
		return errors.NotValidf("LeaseDuration %v (want whole seconds)", c.LeaseDuration)
	case c.RenewDeadline >= c.LeaseDuration:
		return errors.NotValidf("RenewDeadline %v (want less than LeaseDuration, %v)", c.RenewDeadline, c.LeaseDuration)
	case float64(c.RetryPeriod)*leaderelection.JitterFactor >= float64(c.RenewDeadline):
		return errors.NotValidf("RetryPeriod %v (want %v times it to be less than RenewDeadline, %v)",
			c.RetryPeriod, leaderelection.JitterFactor, c.RenewDeadline)
	}
	return nil
}

// withDefaults returns the config with every optional field set, sharing nothing
// that its owner may change.
func (c Config) withDefaults() Config {
	for _, duration := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.LeaseDuration, DefaultLeaseDuration},
		{&c.RenewDeadline, DefaultRenewDeadline},
		{&c.RetryPeriod, DefaultRetryPeriod},
	} {
		if *duration.field == 0 {
			*duration.field = duration.value
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Labels = maps.Clone(c.Labels)
	return c
}
