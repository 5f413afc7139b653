package lxd

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// setting reads one of the controller's settings into a config.
type setting func(c *Config, value string) error

// settings are those that there are. What the controller says wins over what the agent
// was configured with; an empty value says nothing.
func settings() map[string]setting {
	text := func(field func(*Config) *string) setting {
		return func(c *Config, value string) error {
			*field(c) = value
			return nil
		}
	}
	address := func(field func(*Config) *string) setting {
		return func(c *Config, value string) error {
			u, err := url.Parse(value)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				// A proxy's address may have a password in it.
				return errors.NotValidf("address (want http://... or https://...)")
			}
			*field(c) = value
			return nil
		}
	}
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
		"lxd-bridge":         text(func(c *Config) *string { return &c.Network.Existing }),
		"lxd-subnet":         func(c *Config, value string) (err error) { c.Network.Subnet, err = prefix(value); return err },
		"lxd-subnet-pool":    func(c *Config, value string) (err error) { c.Network.Pool, err = prefixes(value); return err },
		"lxd-storage-driver": text(func(c *Config) *string { return &c.Storage.Driver }),
		"lxd-storage-size":   func(c *Config, value string) (err error) { c.Storage.Size, err = number(value); return err },
		"lxd-snap-channel":   text(func(c *Config) *string { return &c.Channel }),
		"http-proxy":         address(func(c *Config) *string { return &c.Proxy.HTTP }),
		"https-proxy":        address(func(c *Config) *string { return &c.Proxy.HTTPS }),
		"no-proxy":           text(func(c *Config) *string { return &c.Proxy.Ignore }),
		"image-server":       address(func(c *Config) *string { return &c.Images.Server }),
		"image-protocol":     text(func(c *Config) *string { return &c.Images.Protocol }),
		"lxd-image-cache-days": func(c *Config, value string) error {
			days, err := number(value)
			if err != nil || days > 3650 {
				return errors.NotValidf("number of days %q (want 0 to 3650)", value)
			}
			c.CacheDays = int(days)
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

func prefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errors.NotValidf("subnet %q (want CIDR)", shortened(s))
	}
	return p, nil
}

func prefixes(s string) (out []netip.Prefix, err error) {
	for one := range strings.SplitSeq(s, ",") {
		p, err := prefix(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func number(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 40)
	if err != nil {
		return 0, errors.NotValidf("number %q", shortened(s))
	}
	return n, nil
}

func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
