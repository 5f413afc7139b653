package agentconf

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

const (
	// DefaultTransientDataDir is what an empty Config.TransientDataDir is
	// rendered as.
	DefaultTransientDataDir = "/var/run/juju"
	// DefaultMetricsSpoolDir is what an empty Config.MetricsSpoolDir is
	// rendered as.
	DefaultMetricsSpoolDir = "/var/lib/juju/metricspool"
)

// Config is the content of an agent.conf. The zero value of every field stands
// for a key that is not in the file.
type Config struct {
	// Tag is the agent's own name to the controller, such as
	// "application-mysql"; see [TagForApplication].
	Tag string
	// DataDir is the agent's data directory as the agent sees it.
	DataDir string
	// TransientDataDir is for what need not outlive a reboot.
	TransientDataDir string
	// LogDir is where the agent writes its logs.
	LogDir string
	// MetricsSpoolDir is where collected metrics wait to be sent.
	MetricsSpoolDir string
	// Nonce is what a machine's agent proves with that it was meant to be
	// started. Operators have none.
	Nonce string
	// Jobs are what a machine's agent is to do. Operators have none.
	Jobs []string
	// UpgradedToVersion is the version of the agent that last ran all its
	// upgrade steps; for a new agent, the version that it is to run.
	UpgradedToVersion string
	// CACert is the certificate, or several in a row, of the controller's
	// CA, in PEM.
	CACert string
	// ControllerUUID and ModelUUID have no prefix here; the file has
	// "controller-" and "model-" before them.
	ControllerUUID, ModelUUID string
	// APIAddresses are the controller's, each host:port.
	APIAddresses []string
	// APIPassword is the password that the agent chose itself, and
	// OldPassword the one that it had before: a fresh agent finds its
	// first password in OldPassword and none in APIPassword.
	APIPassword, OldPassword facade.Secret
	// LoggingConfig sets log levels, as in "<root>=INFO".
	LoggingConfig string
	// Values are settings that agents keep for themselves.
	Values map[string]string

	// extra is the YAML of the keys that are not among the above. It is a
	// Secret since some of them are (a controller's keys, for one).
	extra facade.Secret
}

// TagForApplication returns the tag of the named application's operator.
func TagForApplication(name string) string { return "application-" + name }

// Password returns what an agent with this configuration would log in with: its
// own password, else the old one. One of white space only counts as none. The
// result is empty when there is neither.
func (c *Config) Password() facade.Secret {
	for _, s := range []facade.Secret{c.APIPassword, c.OldPassword} {
		if strings.TrimSpace(s.Reveal()) != "" {
			return s
		}
	}
	return facade.Secret{}
}

// Clone returns a copy that shares nothing with c that can be changed, unknown
// keys included. The clone of nil is nil.
func (c *Config) Clone() *Config {
	if c == nil {
		return nil
	}
	out := *c
	out.Jobs = slices.Clone(c.Jobs)
	out.APIAddresses = slices.Clone(c.APIAddresses)
	out.Values = maps.Clone(c.Values)
	return &out
}

var (
	uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	tagForm  = regexp.MustCompile(`^[a-z]+-[A-Za-z0-9.+@_-]+$`)
)

// Validate returns errors.NotValid, naming the field and the rule and quoting
// nothing, for a configuration that no agent can work with.
func (c *Config) Validate() error {
	if c == nil {
		return errors.NotValidf("nil agent config")
	}
	switch {
	case blank(c.Tag):
		return invalid("Tag", "empty")
	case !tagForm.MatchString(c.Tag):
		return invalid("Tag", "want kind-name")
	case blank(c.DataDir):
		return invalid("DataDir", "empty")
	case blank(c.UpgradedToVersion):
		return invalid("UpgradedToVersion", "empty")
	case blank(c.CACert):
		return invalid("CACert", "empty")
	case blank(c.ControllerUUID):
		return invalid("ControllerUUID", "empty")
	case !uuidForm.MatchString(c.ControllerUUID):
		return invalid("ControllerUUID", "want a UUID")
	case blank(c.ModelUUID):
		return invalid("ModelUUID", "empty")
	case !uuidForm.MatchString(c.ModelUUID):
		return invalid("ModelUUID", "want a UUID")
	case len(c.APIAddresses) == 0:
		return invalid("APIAddresses", "empty")
	case c.Password().IsZero():
		return invalid("OldPassword and APIPassword", "both empty")
	}
	for i, addr := range c.APIAddresses {
		// Its error quotes the address.
		if facade.ValidateAddress(addr) != nil {
			return invalid("APIAddresses["+strconv.Itoa(i)+"]", "want host:port")
		}
	}
	return c.validateText()
}

// validateText refuses what YAML cannot hold as text.
func (c *Config) validateText() error {
	for i := range fields {
		for _, s := range fields[i].texts(c) {
			if !utf8.ValidString(s) {
				return invalid(fields[i].name, "not UTF-8")
			}
		}
	}
	return nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func invalid(field, rule string) error {
	return errors.NotValidf("agent config: %s (%s)", field, rule)
}
