package kvm

import (
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// setting reads one of the controller's settings into a config.
type setting func(c *Config, value string) error

// settings are those that there are. What the controller says wins over what the agent
// was configured with; an empty value says nothing.
func settings() map[string]setting {
	return map[string]setting{
		// Which every controller tells, and which is no choice.
		"model-uuid": func(c *Config, value string) error {
			if !strings.EqualFold(value, c.ModelUUID) {
				return errors.NotValidf("model %q, which is not this agent's,", shortened(value))
			}
			return nil
		},
		"networking-method": func(c *Config, value string) error {
			c.Network.Networking = Networking(value)
			return nil
		},
		"kvm-network": func(c *Config, value string) error {
			c.Network.Name = value
			return nil
		},
		"kvm-bridge": func(c *Config, value string) error {
			c.Network.Bridge = value
			return nil
		},
		"kvm-emulation": func(c *Config, value string) error {
			if value != "true" && value != "false" {
				return errors.NotValidf("value %q (want true or false)", shortened(value))
			}
			c.AllowEmulation = value == "true"
			return nil
		},
	}
}

// withSettings returns the config as the controller's settings change it. What is not a
// setting, or not of its form, is errors.NotValid that names it.
func (c Config) withSettings(given facade.ContainerManagerConfig) (Config, error) {
	known := settings()
	for _, key := range slices.Sorted(maps.Keys(given)) {
		set, ok := known[key]
		if !ok {
			return Config{}, errors.NotValidf("setting %q (want one of %s)", shortened(key), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		value := strings.TrimSpace(given[key])
		if value == "" {
			continue
		}
		if err := set(&c, value); err != nil {
			return Config{}, errors.Annotatef(err, "setting %q", key)
		}
		if err := c.Validate(); err != nil {
			return Config{}, errors.Annotatef(err, "setting %q", key)
		}
	}
	return c, nil
}

func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
