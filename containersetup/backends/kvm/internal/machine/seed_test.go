package machine_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/facade"
)

func seedConfig() machine.SeedConfig {
	return machine.SeedConfig{
		InstanceID: "juju-06f00d-0-kvm-1",
		UserData:   facade.NewSecret("#cloud-config\npassword: hunter2\n"),
		Interfaces: []facade.NetworkInterface{
			{Name: "eth0", MAC: "52:54:00:00:00:01"},
			{Name: "eth1", MAC: "52:54:00:0A:00:02", Addresses: []string{"10.0.0.2/24"}, Gateway: "10.0.0.1"},
		},
		DNS: []string{"9.9.9.9"},
	}
}

func seedFiles(c machine.SeedConfig) map[string]string {
	files := map[string]string{
		"meta-data": "instance-id: juju-06f00d-0-kvm-1\nlocal-hostname: juju-06f00d-0-kvm-1\n",
		"user-data": c.UserData.Reveal(),
	}
	if c.Interfaces != nil {
		files["network-config"] = `version: 2
ethernets:
    eth0:
        match:
            macaddress: "52:54:00:00:00:01"
        set-name: eth0
        dhcp4: true
    eth1:
        match:
            macaddress: 52:54:00:0a:00:02
        set-name: eth1
        dhcp4: false
        addresses:
            - 10.0.0.2/24
        routes:
            - to: 0.0.0.0/0
              via: 10.0.0.1
        nameservers:
            addresses:
                - 9.9.9.9
`
	}
	return files
}

// configs are seeds with everything, and with files that fill sectors or nothing.
func configs() map[string]machine.SeedConfig {
	all := map[string]machine.SeedConfig{"full": seedConfig()}
	for name, size := range map[string]int{"of nothing": 0, "of a sector": 2048, "of more than a sector": 2049, "of a mebibyte": 1 << 20} {
		c := seedConfig()
		c.UserData = facade.NewSecret(strings.Repeat("0123456789abcde\n", size/16+1)[:size])
		c.Interfaces = nil
		all[name] = c
	}
	return all
}

// TestASeedIsAsTheFormatSays reads it by rules that are written here a second time.
func TestASeedIsAsTheFormatSays(t *testing.T) {
	for name, c := range configs() {
		t.Run(name, func(t *testing.T) {
			image, err := machine.Seed(c)
			if err != nil {
				t.Fatal(err)
			}
			label, files := readISO(t, image)
			if label != "cidata" {
				t.Errorf("label %q", label)
			}
			want := seedFiles(c)
			if len(files) != len(want) {
				t.Errorf("%d files: %q", len(files), files)
			}
			for name, text := range want {
				if files[name] != text {
					t.Errorf("%s:\ngot  %.200q\nwant %.200q", name, files[name], text)
				}
			}
			if again, err := machine.Seed(c); err != nil || !bytes.Equal(again, image) {
				t.Errorf("another one the second time: %v", err)
			}
		})
	}
}

// readISO reads the root of an image by Rock Ridge's names.
func readISO(t *testing.T, image []byte) (label string, files map[string]string) {
	t.Helper()
	both := func(b []byte) int {
		little, big := binary.LittleEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
		if little != big {
			t.Fatalf("%d in one order, %d in the other", little, big)
		}
		return int(little)
	}
	if len(image)%2048 != 0 {
		t.Fatalf("%d bytes", len(image))
	}
	volume := image[16*2048:][:2048]
	if string(volume[:7]) != "\x01CD001\x01" || string(image[17*2048:][:7]) != "\xffCD001\x01" {
		t.Fatalf("%q", volume[:7])
	}
	if size := both(volume[80:]); size*2048 != len(image) {
		t.Errorf("%d sectors in %d bytes", size, len(image))
	}
	little := image[binary.LittleEndian.Uint32(volume[140:])*2048:]
	big := image[binary.BigEndian.Uint32(volume[148:])*2048:]
	root := volume[156:]
	at := both(root[2:])
	if both(volume[132:]) != 10 || int(binary.LittleEndian.Uint32(little[2:])) != at || int(binary.BigEndian.Uint32(big[2:])) != at {
		t.Error("tables of paths without the root")
	}
	files = map[string]string{}
	last := ""
	for n, rest := 0, image[at*2048:][:both(root[10:])]; rest[0] != 0; n, rest = n+1, rest[rest[0]:] {
		record := rest[:rest[0]]
		short := string(record[33:][:record[32]])
		rock := record[33+int(record[32])+(1-int(record[32])%2):]
		entries := map[string][]byte{}
		for len(rock) >= 4 {
			entries[string(rock[:2])] = rock[4:rock[2]]
			rock = rock[rock[2]:]
		}
		if mode := both(entries["PX"]); n < 2 && mode != 0o40500 || n >= 2 && mode != 0o100400 {
			t.Errorf("%q has mode %o", short, mode)
		}
		if n < 2 {
			if short != string(rune(n)) || n == 0 && (!bytes.Equal(entries["SP"], []byte{0xbe, 0xef, 0}) || entries["ER"] == nil) {
				t.Errorf("record %d: %q, %v", n, short, entries)
			}
			continue
		}
		if short <= last || strings.Trim(short, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != ".;1" {
			t.Errorf("%q after %q", short, last)
		}
		last = short
		files[string(entries["NM"][1:])] = string(image[both(record[2:])*2048:][:both(record[10:])])
	}
	return strings.TrimRight(string(volume[40:72]), " "), files
}

// TestProgramsReadASeed has two that others wrote.
func TestProgramsReadASeed(t *testing.T) {
	image, err := machine.Seed(seedConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("blkid", func(t *testing.T) {
		needs(t, "blkid")
		// By this, cloud-init finds it.
		if label := run(t, image, "blkid", "-p", "-s", "LABEL", "-o", "value", "FILE"); label != "cidata\n" {
			t.Errorf("label %q", label)
		}
	})
	t.Run("bsdtar", func(t *testing.T) {
		needs(t, "bsdtar")
		if names := run(t, image, "bsdtar", "-tf", "FILE"); names != ".\nmeta-data\nnetwork-config\nuser-data\n" {
			t.Errorf("names %q", names)
		}
		for name, want := range seedFiles(seedConfig()) {
			if got := run(t, image, "bsdtar", "-xOf", "FILE", name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func TestSeedsThatCannotBeAreRefused(t *testing.T) {
	for field, change := range map[string]func(*machine.SeedConfig){
		"InstanceID":           func(c *machine.SeedConfig) { c.InstanceID = "" },
		`InstanceID "a\nb"`:    func(c *machine.SeedConfig) { c.InstanceID = "a\nb" },
		`Hostname "a b"`:       func(c *machine.SeedConfig) { c.Hostname = "a b" },
		`Hostname "-a"`:        func(c *machine.SeedConfig) { c.Hostname = "-a" },
		"UserData of 16777217": func(c *machine.SeedConfig) { c.UserData = facade.NewSecret(strings.Repeat("hunter2!", 2<<20) + "!") },
		"Interfaces[0]: MAC":   func(c *machine.SeedConfig) { c.Interfaces[0].MAC = "" },
		"Interfaces[1]: MAC":   func(c *machine.SeedConfig) { c.Interfaces[1].MAC = c.Interfaces[0].MAC },
		"Interfaces[1]: name":  func(c *machine.SeedConfig) { c.Interfaces[1].Name = "eth0" },
		"Interfaces[1]":        func(c *machine.SeedConfig) { c.Interfaces[1].Gateway = "x" },
	} {
		c := seedConfig()
		change(&c)
		_, err := machine.Seed(c)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", field, err)
		}
	}
	c := seedConfig()
	c.Hostname = "web-1.example.com"
	if _, err := machine.Seed(c); err != nil {
		t.Error(err)
	}
}

// FuzzSeed has every user data come out as it went in.
func FuzzSeed(f *testing.F) {
	f.Add("#cloud-config\n", "host")
	f.Add("\x00\xff", "")
	f.Fuzz(func(t *testing.T, user, hostname string) {
		image, err := machine.Seed(machine.SeedConfig{InstanceID: "a", Hostname: hostname, UserData: facade.NewSecret(user)})
		if err != nil {
			if !errors.Is(err, errors.NotValid) {
				t.Fatal(err)
			}
			return
		}
		if _, files := readISO(t, image); files["user-data"] != user || !strings.HasPrefix(files["meta-data"], "instance-id: a\n") {
			t.Errorf("%q", files)
		}
	})
}
