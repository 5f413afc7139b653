package lxd

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func validConfig() Config {
	return Config{
		ModelUUID: "deadbeef-0bad-400d-8000-4b1d0d06f00d", ControllerUUID: "c0ffee00-0bad-400d-8000-4b1d0d06f00d", StateDir: "/var/lib/agent/lxd",
	}
}

func TestConfigValidateNamesTheField(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"":                         func(*Config) {},
		"ModelUUID":                func(c *Config) { c.ModelUUID = "prod" },
		"ControllerUUID":           func(c *Config) { c.ControllerUUID = "" },
		"StateDir":                 func(c *Config) { c.StateDir = "lxd" },
		"Socket":                   func(c *Config) { c.Socket = "unix.socket" },
		"CacheDays":                func(c *Config) { c.CacheDays = -1 },
		"time-out":                 func(c *Config) { c.StopTimeout = -1 },
		"Storage.Pool":             func(c *Config) { c.Storage.Pool = "a/b" },
		"Storage.Driver":           func(c *Config) { c.Storage.Driver = "a b" },
		"Images.Protocol":          func(c *Config) { c.Images.Protocol = "ftp" },
		"Network.Networking":       func(c *Config) { c.Network.Networking = "fan" },
		"Network.Existing":         func(c *Config) { c.Network.Existing = "a-name-of-more-than-15" },
		"Network.Bridge":           func(c *Config) { c.Network.Bridge = "a b" },
		"Network.Subnet fd00::/64": func(c *Config) { c.Network.Subnet = prefixesOf("fd00::/64")[0] },
		"Network.Subnet 10.":       func(c *Config) { c.Network.Subnet = prefixesOf("10.0.0.0/31")[0] },
		"Network.Pool[1]":          func(c *Config) { c.Network.Pool = prefixesOf("10.0.0.0/8", "fd00::/8") },
		"Network.Pool6[0]":         func(c *Config) { c.Network.Pool6 = prefixesOf("10.0.0.0/8") },
	} {
		c := validConfig()
		change(&c)
		err := c.Validate()
		if want == "" {
			if err != nil {
				t.Errorf("a good one: %v", err)
			}
			continue
		}
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want NotValid with %q, got %v", want, err)
		}
		if _, err := NewInitialiser(c); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: an initialiser was made", want)
		}
		if _, err := NewBackend(c); !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: a back end was made", want)
		}
	}
}

func TestSettingsWinOverTheConfig(t *testing.T) {
	t.Parallel()
	c := validConfig()
	c.Network.Existing, c.Storage.Driver, c.Channel = "br0", "zfs", "latest/stable"
	got, err := c.withSettings(facade.ContainerManagerConfig{
		"model-uuid": validConfig().ModelUUID, "networking-method": "provider", "lxd-bridge": "br7", "lxd-subnet": "10.5.0.0/24", "lxd-subnet-pool": "10.0.0.0/8, 172.16.0.0/12",
		"lxd-storage-driver": "", "lxd-storage-size": "2048", "lxd-snap-channel": "5.0/stable",
		"http-proxy": "http://proxy:3128", "https-proxy": "https://proxy:3129", "no-proxy": "localhost,10.0.0.0/8",
		"image-server": "https://images.example.com", "image-protocol": "lxd", "lxd-image-cache-days": "30",
	})
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Network.Networking != Provider, got.Network.Existing != "br7", got.Network.Subnet.String() != "10.5.0.0/24", len(got.Network.Pool) != 2,
		got.Storage.Driver != "zfs", got.Storage.Size != 2048, got.Channel != "5.0/stable",
		got.Proxy != ProxyConfig{"http://proxy:3128", "https://proxy:3129", "localhost,10.0.0.0/8"},
		got.Images != ImageConfig{"https://images.example.com", "lxd"}, got.CacheDays != 30:
		t.Errorf("read as %+v", got)
	}
	if c.Network.Existing != "br0" {
		t.Error("the config itself was changed")
	}
}

func TestWrongSettingIsNamedAndSecretsAreNot(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"model-uuid": "c0ffee00-0bad-400d-8000-4b1d0d06f00d", "networking-method": "fan", "nosuch": "x", "": "x", "lxd-bridge": "a-name-of-more-than-15", "lxd-subnet": "10.0.0.1", "lxd-subnet-pool": "10.0.0.0/8,x",
		"lxd-storage-driver": "a b", "lxd-storage-size": "-1", "lxd-image-cache-days": "4000", "http-proxy": "canary://user:canary@host", "https-proxy": "canary",
		"image-server": "ftp://canary", "image-protocol": "ftp", strings.Repeat("x", 10_000): "x",
	} {
		_, err := validConfig().withSettings(facade.ContainerManagerConfig{key: value})
		switch {
		case !errors.Is(err, errors.NotValid):
			t.Errorf("%q %q: %v", key, value, err)
		case !strings.Contains(err.Error(), `setting "`+shortened(key)), len(err.Error()) > 600, strings.ContainsAny(err.Error(), "\n\x00"):
			t.Errorf("%q: %q", key, err)
		case strings.Contains(err.Error(), "canary"):
			t.Errorf("%q: a secret is told: %v", key, err)
		}
	}
}

// FuzzSettings: nothing makes them panic, and what they read is valid.
func FuzzSettings(f *testing.F) {
	for key := range settings() {
		f.Add(key, "10.0.0.0/8")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		c, err := validConfig().withSettings(facade.ContainerManagerConfig{key: value})
		if err == nil {
			err = c.Validate()
			if err != nil {
				t.Errorf("%q %q was read as what is not valid: %v", key, value, err)
			}
		} else if !errors.Is(err, errors.NotValid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	})
}
