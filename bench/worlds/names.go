package worlds

import (
	"fmt"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
	"github.com/sutler-dev/sutler/operator/agentconf"
)

// Name is the name of the application of that number.
func Name(i int) string { return fmt.Sprintf("application-a%d-of-many", i) }

// Names are those of the first n.
func Names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = Name(i)
	}
	return names
}

// passwordOf is the password in a stored configuration, zero for none.
func passwordOf(stored *operator.Config) facade.Secret {
	conf, err := agentconf.Parse([]byte(stored.AgentConf.Reveal()))
	if err != nil {
		return facade.Secret{}
	}
	return conf.Password()
}
