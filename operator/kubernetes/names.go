package kubernetes

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/sutler-dev/sutler/facade"
)

// maxStatefulSetName leaves its pods' revision label, which is the set's name, a
// dash and ten characters, within the 63 of a label. The pods of a longer one are
// refused, and nobody is told.
const maxStatefulSetName = 52

const (
	suffix       = "-operator"
	configSuffix = "-operator-config"
	pullSuffix   = "-operator-pull"

	// claimTemplate is the name of the claim template, of its volume, and the
	// beginning of the claims' own names.
	claimTemplate = "charm"
)

// names are those of one application's objects.
type names struct {
	app string
	// short is app, or what stands for it where app would be too long.
	short string
}

// namesOf returns the names for a valid application name.
//
// A long name becomes its beginning and twelve decimal digits of its digest. No
// application can have such a name of its own: each group between dashes of one
// has a letter.
func namesOf(app string) names {
	if len(app)+len(suffix) <= maxStatefulSetName {
		return names{app: app, short: app}
	}
	sum := sha256.Sum256([]byte(app))
	digits := fmt.Sprintf("%012d", binary.BigEndian.Uint64(sum[:8])%1e12)
	begin := app[:maxStatefulSetName-len(suffix)-len(digits)-1]
	return names{app: app, short: strings.TrimRight(begin, "-") + "-" + digits}
}

// hashed reports whether the application's name has to be told beside the objects'.
func (n names) hashed() bool { return n.short != n.app }

// operator is the name of most of the objects.
func (n names) operator() string { return n.short + suffix }

// config is the name of the Secret with the operator's files, and of the older
// tool's ConfigMap.
func (n names) config() string { return n.short + configSuffix }

// pull is the name of the image pull secret.
func (n names) pull() string { return n.short + pullSuffix }

// claimName is the name of the claim of the set's only pod.
func (n names) claimName() string { return claimTemplate + "-" + n.podName() }

// podName is the name of that pod.
func (n names) podName() string { return n.operator() + "-0" }

// agentConfKey is the key of agent.conf in the Secret.
func (n names) agentConfKey() string { return n.short + "-agent.conf" }

// infoKey is the key of operator.yaml, and recordKey that of the rest of an
// operator.Config.
const (
	infoKey   = "operator.yaml"
	recordKey = "sutler.json"
)

// validName is facade.ValidateApplicationName: whatever it lets through is a DNS
// label, but for its length.
func validName(app string) error { return facade.ValidateApplicationName(app) }
