package model

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

// checkRefusal holds what is true of every error about a file: it is a problem
// of that file, on a line that the file has, told in one printable line.
func checkRefusal(t *testing.T, data []byte, err error) {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) || !errors.Is(err, errors.NotValid) {
		t.Fatalf("%v is no problem", err)
	}
	// The library places some complaints on the line after the last.
	if lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) +
		strings.Count(string(data), "\u0085") + strings.Count(string(data), "\u2028") +
		strings.Count(string(data), "\u2029") + 2; p.File != "f" || p.Line < 1 || p.Line > lines {
		t.Errorf("%q: not in a file of %d lines", p.Error(), lines)
	}
	if text := p.Error(); strings.ContainsAny(text, "\n\r\x00\x1b") || !utf8.ValidString(text) || len(text) > 400 {
		t.Errorf("%q is not one short printable line", text)
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(settings))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSettings("f", data)
		if err != nil {
			checkRefusal(t, data, err)
			return
		}
		if s.Name == "" || len(s.UUID) != 36 || s.Version == "" {
			t.Errorf("accepted %+v", s)
		}
	})
}

func FuzzApplication(f *testing.F) {
	f.Add([]byte("life: dying\nstorage: {size: 1, provider: rootfs}\naddresses: ['a:1']\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		life, info, err := ParseApplication("f", data)
		if err != nil {
			checkRefusal(t, data, err)
			return
		}
		if err := life.Validate(); err != nil {
			t.Error(err)
		}
		// Version and addresses may be left to the model and the controller.
		if info.Version == "" {
			info.Version = DefaultVersion
		}
		if len(info.APIAddresses) == 0 {
			info.APIAddresses = []string{"localhost:1"}
		}
		if err := info.Validate(); err != nil {
			t.Errorf("accepted %+v: %v", info, err)
		}
	})
}

func FuzzCharm(f *testing.F) {
	f.Add([]byte("name: a\nseries: [kubernetes]\n"), []byte("bases: [{name: ubuntu, channel: '20.04'}]\n"))
	f.Fuzz(func(t *testing.T, metadata, manifest []byte) {
		charm, err := ParseMetadata("f", metadata)
		if err != nil {
			checkRefusal(t, metadata, err)
		} else if charm.Name == "" {
			t.Error("accepted a charm without a name")
		}
		bases, err := ParseManifest("f", manifest)
		if err != nil {
			checkRefusal(t, manifest, err)
		}
		for _, base := range bases {
			if base.Name == "" {
				t.Error("accepted a base without a name")
			}
		}
	})
}

func FuzzMachine(f *testing.F) {
	f.Add([]byte("id: 0\ncontainers: [lxd, box]\nharvest: all\nsettings: {box: {stop-timeout: 5s}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseMachine("f", data)
		if err != nil {
			checkRefusal(t, data, err)
			return
		}
		if err := container.ValidateMachineID(m.ID); err != nil {
			t.Error(err)
		}
		if err := m.Harvest.Validate(); err != nil {
			t.Error(err)
		}
		seen := map[facade.ContainerType]bool{}
		for _, typ := range m.Types {
			if err := typ.Validate(); err != nil || seen[typ] {
				t.Errorf("accepted type %q: %v", typ, err)
			}
			seen[typ] = true
		}
		for typ := range m.Settings {
			if !seen[typ] {
				t.Errorf("accepted settings of type %q", typ)
			}
		}
	})
}

func FuzzContainer(f *testing.F) {
	f.Add([]byte("life: dead\nbase: ubuntu@22.04/stable\nconstraints: {cores: 1, memory: 64}\nuser-data: |\n  #cloud-config\n  a: b\nretry: 2\n"))
	f.Add([]byte("image: /images/disk.qcow2\nimage-sha256: " + strings.Repeat("0a", 32) + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, typ := range []facade.ContainerType{container.LXD, container.KVM} {
			checkContainer(t, typ, data)
		}
	})
}

// checkContainer holds a file to be that of a good container, or refused.
func checkContainer(t *testing.T, typ facade.ContainerType, data []byte) {
	c, err := ParseContainer("f", typ, data)
	if err != nil {
		checkRefusal(t, data, err)
		return
	}
	if err := c.Life.Validate(); err != nil {
		t.Error(err)
	}
	if err := c.Info.Validate(); err != nil {
		t.Errorf("accepted %+v: %v", c, err)
	}
	if n := len(c.Info.UserData.Reveal()); n > MaxUserData {
		t.Errorf("accepted user data of %d bytes", n)
	}
}

// FuzzContainerFile holds names to stand for one container each, and for one of
// this machine.
func FuzzContainerFile(f *testing.F) {
	f.Add("0-lxd-1.yaml")
	f.Add("0-lxd-01.yaml")
	f.Add("0/lxd/1.yaml")
	f.Add("0-kvm-2-lxd-0.yaml")
	f.Fuzz(func(t *testing.T, name string) {
		id, err := containerID(name, "0")
		if err != nil {
			return
		}
		if parsed, err := container.ParseID(id); err != nil || parsed.Host != "0" {
			t.Errorf("%q is container %q", name, id)
		}
		// A path in a name is another file's business.
		if got := ContainerFile(id); !strings.Contains(name, "/") && got != ContainersDir+"/"+name {
			t.Errorf("%q is container %q, whose file is %q", name, id, got)
		}
	})
}
