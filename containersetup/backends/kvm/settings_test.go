package kvm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

func validConfig() Config {
	return Config{
		ModelUUID: "deadbeef-0bad-400d-8000-4b1d0d06f00d", ControllerUUID: "c0ffee00-0bad-400d-8000-4b1d0d06f00d", StateDir: "/var/lib/agent/kvm",
		Images: map[string]Image{"ubuntu/22.04": {URL: "https://user:canary@images.example.com/jammy.img?key=canary", SHA256: strings.Repeat("0", 64)}},
	}
}

func TestConfigValidateNamesTheField(t *testing.T) {
	t.Parallel()
	image := func(base string, i Image) func(*Config) {
		return func(c *Config) { c.Images = map[string]Image{base: i} }
	}
	sum := strings.Repeat("0", 64)
	for want, change := range map[string]func(*Config){
		"":                                   func(*Config) {},
		"ModelUUID":                          func(c *Config) { c.ModelUUID = "prod" },
		"ControllerUUID":                     func(c *Config) { c.ControllerUUID = "" },
		"StateDir":                           func(c *Config) { c.StateDir = "kvm" },
		"Socket":                             func(c *Config) { c.Socket = "libvirt-sock" },
		"Pool.Name":                          func(c *Config) { c.Pool.Name = "a/b" },
		"Pool.Dir":                           func(c *Config) { c.Pool.Dir = "images" },
		"time-out":                           func(c *Config) { c.StopTimeout = -1 },
		"Network.Networking":                 func(c *Config) { c.Network.Networking = "fan" },
		"Network.Name":                       func(c *Config) { c.Network.Name = "a b" },
		"Network.Bridge":                     func(c *Config) { c.Network.Bridge = "a-name-of-more-than-15" },
		`Images["ubuntu"] (want NAME/TRACK)`: image("ubuntu", Image{URL: "https://a/b", SHA256: sum}),
		`Images["a/b"]: URL`:                 image("a/b", Image{URL: "ftp://user:canary@a/b", SHA256: sum}),
		`Images["c/d"]: SHA256`:              image("c/d", Image{URL: "https://user:canary@a/b"}),
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
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
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

func TestConfigIsToldWithoutAddresses(t *testing.T) {
	t.Parallel()
	c := validConfig()
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %s", c, c)} {
		if strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
}

func TestSettingsWinOverTheConfig(t *testing.T) {
	t.Parallel()
	c := validConfig()
	c.Network.Name, c.AllowEmulation = "inner", true
	got, err := c.withSettings(facade.ContainerManagerConfig{
		"model-uuid": strings.ToUpper(c.ModelUUID), "networking-method": "provider", "kvm-network": "outer", "kvm-bridge": "br7", "kvm-emulation": "false",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Network != (NetworkConfig{Provider, "outer", "br7"}) || got.AllowEmulation {
		t.Errorf("read as %+v", got.Network)
	}
	got, err = c.withSettings(facade.ContainerManagerConfig{"kvm-network": "", "kvm-emulation": " "})
	if err != nil || got.Network.Name != "inner" || !got.AllowEmulation {
		t.Errorf("empty ones: %+v, %v", got.Network, err)
	}
	if c.Network.Name != "inner" {
		t.Error("the config itself was changed")
	}
}

func TestWrongSettingIsNamed(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		"model-uuid": "c0ffee00-0bad-400d-8000-4b1d0d06f00e", "networking-method": "fan", "nosuch": "x", "": "x", "lxd-bridge": "br0",
		"kvm-network": "a b", "kvm-bridge": "a-name-of-more-than-15", "kvm-emulation": "perhaps", strings.Repeat("x", 10_000): "x",
	} {
		_, err := validConfig().withSettings(facade.ContainerManagerConfig{key: value})
		switch {
		case !errors.Is(err, errors.NotValid):
			t.Errorf("%q %q: %v", key, value, err)
		case !strings.Contains(err.Error(), `setting "`+shortened(key)), len(err.Error()) > 600, strings.ContainsAny(err.Error(), "\n\x00"):
			t.Errorf("%q: %q", key, err)
		}
	}
}

// FuzzSettings: nothing makes them panic, and what they read is valid.
func FuzzSettings(f *testing.F) {
	for key := range settings() {
		f.Add(key, "true")
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
