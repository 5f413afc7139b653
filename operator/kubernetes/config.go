package kubernetes

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	"github.com/juju/clock"
	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Defaults of the optional fields of [Config] and [PodConfig].
const (
	DefaultQPS          = 50
	DefaultBurst        = 100
	DefaultManagedBy    = "juju"
	DefaultFieldManager = "sutler"
	DefaultUserID       = 170
)

// OperatorPort is where an operator listens, in its pod and at its Service.
const OperatorPort = 30666

// Config is what a [Manager] works with. Namespace, ModelUUID, Clock and one of
// Client and REST are required; the zero value of any other field stands for its
// default.
type Config struct {
	// Client talks to the cluster, at the pace that whoever made it has
	// set. It is not closed.
	Client kubernetes.Interface
	// REST is for a client of the manager's own, when Client is nil; QPS and
	// Burst are that one's limits, [DefaultQPS] and [DefaultBurst] by default.
	// Watches do not count.
	REST  *rest.Config
	QPS   float32
	Burst int

	// Namespace is where the model's operators are. It has to exist.
	Namespace string
	// ModelUUID tells the model's objects from those of others. ModelName and
	// ControllerUUID are written on them for people to read.
	ModelUUID, ModelName, ControllerUUID string
	// ManagedBy is the objects' label app.kubernetes.io/managed-by;
	// [DefaultManagedBy] by default.
	ManagedBy string
	// FieldManager is who owns the fields that the manager writes;
	// [DefaultFieldManager] by default. Agents that take over from each other
	// have the same.
	FieldManager string

	// Pod is what operators' pods are like.
	Pod PodConfig
	// PodSecurity is the Pod Security level that pods are made for;
	// [PodSecurityRestricted] by default.
	PodSecurity PodSecurity
	// PullSecrets are the names of pull secrets in the namespace that the host
	// looks after itself. With any, the manager makes none of its own.
	PullSecrets []string
	// KeepClaims leaves an operator's volume claims when it is deleted. The
	// next operator of that name finds them.
	KeepClaims bool

	// Clock is where time comes from.
	Clock clock.Clock
	// Logger hears what is made, changed and deleted, and of trouble with the
	// cluster, with the application as an attribute; nil discards.
	Logger *slog.Logger
}

// PodSecurity is a Pod Security level.
type PodSecurity string

const (
	// PodSecurityRestricted has pods that run as an ordinary user without
	// any privilege.
	PodSecurityRestricted PodSecurity = "restricted"
	// PodSecurityNone leaves the pods' security contexts to the image, the
	// cluster and PodConfig.Template.
	PodSecurityNone PodSecurity = "none"
)

// PodConfig is what operators' pods are like. In the elements of Install and
// Command, {application} stands for the application's name and {agentPath} for the
// agent's data directory in the pod; no shell is involved.
type PodConfig struct {
	// Install is what the init container, which has the operator's image,
	// runs to put the operator's program into /opt/juju. By default it is
	// /bin/cp /opt/jujud /opt/juju/jujud.
	Install []string
	// Command is what the operator's container runs. It has the base image, or
	// the operator's where there is none. By default it is /opt/juju/jujud
	// caasoperator --application-name={application} --data-dir={agentPath}.
	Command []string
	// Env is added to the environment of the operator's container. It is no
	// place for secrets. Names that begin with JUJU_ are the manager's.
	Env []corev1.EnvVar
	// Startup, Readiness and Liveness are the probes of the operator's
	// container. By default each looks whether something listens on
	// OperatorPort. NoProbes leaves out all that are nil.
	Startup, Readiness, Liveness *corev1.Probe
	NoProbes                     bool
	// Resources are the operator's container's; by default it requests a
	// tenth of a CPU and 128 MiB. A request of zero is one.
	Resources *corev1.ResourceRequirements
	// UserID is the user and group that a restricted pod runs as;
	// [DefaultUserID] by default.
	UserID int64
	// PullPolicy is that of both images; the cluster's default by default.
	PullPolicy corev1.PullPolicy
	// ServiceAccountToken has the pod find its service account's token.
	ServiceAccountToken bool
	// Template may change the pod template of an application's operator when
	// all else is in it. What it does may depend on its arguments alone: what is
	// settled is not asked about again, and a difference starts the pod again.
	// It may not touch labels that select the pod. nil changes nothing.
	Template func(application string, template *corev1.PodTemplateSpec)
}

// Validate returns an errors.NotValid that names the first field that is
// missing or impossible, and the rule, or nil.
func (c Config) Validate() error {
	switch {
	case c.Client == nil && c.REST == nil:
		return errors.NotValidf("nil Client and nil REST (want one of them)")
	case c.Client != nil && c.REST != nil:
		return errors.NotValidf("Client and REST (want one of them)")
	case c.Client != nil && (c.QPS != 0 || c.Burst != 0):
		return errors.NotValidf("QPS or Burst with a Client, which has its own,")
	case c.QPS < 0:
		return errors.NotValidf("negative QPS")
	case c.Burst < 0:
		return errors.NotValidf("negative Burst")
	case c.Namespace == "":
		return errors.NotValidf("empty Namespace")
	case c.ModelUUID == "":
		return errors.NotValidf("empty ModelUUID")
	case c.Clock == nil:
		return errors.NotValidf("nil Clock")
	case c.PodSecurity != "" && c.PodSecurity != PodSecurityRestricted && c.PodSecurity != PodSecurityNone:
		return errors.NotValidf("PodSecurity %q (want %s or %s)", c.PodSecurity, PodSecurityRestricted, PodSecurityNone)
	case len(c.FieldManager) > 128:
		return errors.NotValidf("FieldManager of more than 128 bytes")
	}
	if bad := validation.IsDNS1123Label(c.Namespace); len(bad) > 0 {
		return errors.NotValidf("Namespace %q (%s)", c.Namespace, bad[0])
	}
	for _, field := range []struct{ name, value string }{
		{"ModelUUID", c.ModelUUID}, {"ModelName", c.ModelName}, {"ControllerUUID", c.ControllerUUID}, {"ManagedBy", c.ManagedBy},
	} {
		if bad := validation.IsValidLabelValue(field.value); len(bad) > 0 {
			return errors.NotValidf("%s %q (%s)", field.name, field.value, bad[0])
		}
	}
	for i, name := range c.PullSecrets {
		if bad := validation.IsDNS1123Subdomain(name); len(bad) > 0 {
			return errors.NotValidf("PullSecrets[%d] %q (%s)", i, name, bad[0])
		}
	}
	return errors.Annotate(c.Pod.validate(), "Pod")
}

func (p PodConfig) validate() error {
	switch {
	case p.UserID < 0:
		return errors.NotValidf("negative UserID")
	case len(p.Install) > 0 && p.Install[0] == "":
		return errors.NotValidf("Install[0], which is empty,")
	case len(p.Command) > 0 && p.Command[0] == "":
		return errors.NotValidf("Command[0], which is empty,")
	}
	for i, env := range p.Env {
		switch {
		case env.Name == "":
			return errors.NotValidf("Env[%d] without a name", i)
		case strings.HasPrefix(env.Name, "JUJU_"):
			return errors.NotValidf("Env[%d] %q, which is the manager's,", i, env.Name)
		}
	}
	switch p.PullPolicy {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		return nil
	}
	return errors.NotValidf("PullPolicy %q (want Always, IfNotPresent or Never)", p.PullPolicy)
}

// withDefaults returns the config with every optional field set, sharing nothing
// that its owner may change.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.QPS = cmp.Or(c.QPS, DefaultQPS)
	c.Burst = cmp.Or(c.Burst, DefaultBurst)
	c.ManagedBy = cmp.Or(c.ManagedBy, DefaultManagedBy)
	c.FieldManager = cmp.Or(c.FieldManager, DefaultFieldManager)
	c.PodSecurity = cmp.Or(c.PodSecurity, PodSecurityRestricted)
	c.Pod.UserID = cmp.Or(c.Pod.UserID, DefaultUserID)
	c.PullSecrets = slices.Clone(c.PullSecrets)
	c.Pod = c.Pod.withDefaults()
	return c
}

// newClient returns the client to use.
func (c Config) newClient() (kubernetes.Interface, error) {
	if c.Client != nil {
		return c.Client, nil
	}
	config := rest.CopyConfig(c.REST)
	config.QPS, config.Burst, config.RateLimiter = c.QPS, c.Burst, nil
	if config.WarningHandler == nil && config.WarningHandlerWithContext == nil {
		config.WarningHandlerWithContext = warnings{c.Logger}
	}
	client, err := kubernetes.NewForConfig(config)
	return client, errors.Annotate(err, "making a client from REST")
}
