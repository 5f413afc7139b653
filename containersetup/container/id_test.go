package container_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// checkNotValid wants no error for an empty rule, and else an errors.NotValid of
// one short line whose text has it.
func checkNotValid(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && !errors.Is(err, errors.NotValid):
		t.Errorf("got %v, want a NotValid", err)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("got %v, want %q in it", err, want)
	case want != "" && (len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x00")):
		t.Errorf("an error of %d bytes: %q", len(err.Error()), err.Error())
	}
}

// ids are good ones, with what they are made of.
var ids = map[string]container.ID{
	"0/lxd/1":             {Host: "0", Type: container.LXD, Number: 1},
	"0/lxd/0":             {Host: "0", Type: container.LXD, Number: 0},
	"0/kvm/2":             {Host: "0", Type: container.KVM, Number: 2},
	"0/kvm/2/lxd/0":       {Host: "0/kvm/2", Type: container.LXD, Number: 0},
	"7/kvm/2/kvm/3/lxd/4": {Host: "7/kvm/2/kvm/3", Type: container.LXD, Number: 4},
	"123456789/podman/10": {Host: "123456789", Type: "podman", Number: 10},
	"0/x9/999999999":      {Host: "0", Type: "x9", Number: 999999999},
}

func TestParseID(t *testing.T) {
	for s, want := range ids {
		got, err := container.ParseID(s)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", s, got, err, want)
		}
		if got.String() != s {
			t.Errorf("%s became %s", s, got)
		}
	}
	deep := "0" + strings.Repeat("/lxd/0", 100)
	if got, err := container.ParseID(deep); err != nil || got.String() != deep {
		t.Errorf("deeply nested: %+v, %v", got, err)
	}
}

// Each is an id as it reads, or nearly.
func TestParseIDRefusesEverythingElse(t *testing.T) {
	for _, s := range []string{
		"", "0", "7", "lxd", "/", "//", "0/", "/lxd/1", "0/lxd", "0/lxd/", "0/lxd/1/", "/0/lxd/1", "0//1", "0/lxd//1",
		"0/lxd/1/lxd", "0/lxd/1/lxd/", "0/lxd/x", "x/lxd/0", "0/0/0", "lxd/0/lxd",
		"00/lxd/1", "0/lxd/01", "0/lxd/00", "0/lxd/-1", "0/lxd/+1", "0/lxd/1.0", "0/lxd/1e3", "0/lxd/0x1", "0/lxd/1_0",
		"0/lxd/1000000000", "1000000000/lxd/1", "0/lxd/99999999999999999999999", "0/lxd/٣",
		"0/LXD/1", "0/lx-d/1", "0/lx_d/1", "0/lx.d/1", "0/9lxd/1", "0/é/1", "0/lxd /1", "0/" + strings.Repeat("a", 33) + "/1",
		" 0/lxd/1", "0/lxd/1 ", "0/lxd/1\n", "0/lxd/1\x00", "0\\lxd\\1", "0-lxd-1", "0:lxd:1", "0/../1", "../lxd/1", "0/lxd/1/../../etc",
		"machine-0-lxd-1", "0/lxd/1;reboot", "\xff/lxd/1", "0/\xff/1",
	} {
		got, err := container.ParseID(s)
		checkNotValid(t, err, "container id")
		if got != (container.ID{}) {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
	_, err := container.ParseID("0" + strings.Repeat("/lxd/0", 1000))
	checkNotValid(t, err, "container id of 6001 bytes, over 1024,")
	_, err = container.ParseID(strings.Repeat("x", 1000))
	checkNotValid(t, err, `xxx..."`)
}

func TestValidateMachineID(t *testing.T) {
	for _, id := range []string{"0", "1", "10", "999999999", "0/lxd/1", "0/kvm/2/lxd/0"} {
		checkNotValid(t, container.ValidateMachineID(id), "")
	}
	for _, id := range []string{"", "00", "-1", "x", "0/", "0/lxd", "0/lxd/x", " 0", "0\n", "1000000000", "machine-0", strings.Repeat("0", 10_000), "\xff"} {
		checkNotValid(t, container.ValidateMachineID(id), "machine id")
	}
}

// FuzzParseID: nothing makes it panic, and what it reads it writes.
func FuzzParseID(f *testing.F) {
	for s := range ids {
		f.Add(s)
	}
	for _, s := range []string{"", "0", "0/lxd", "0/lxd/01", "0/LXD/1", "0/lxd/1/", "0/lxd/1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := container.ParseID(s)
		if err != nil {
			checkNotValid(t, err, "container id")
			if id != (container.ID{}) {
				t.Fatalf("%q was read as %+v", s, id)
			}
			return
		}
		if id.String() != s {
			t.Fatalf("%q became %q", s, id)
		}
		again, err := container.ParseID(id.String())
		if err != nil || again != id {
			t.Fatalf("%q was read as %+v, then as %+v (%v)", s, id, again, err)
		}
		// Its parts are good by themselves, and only their host's child.
		if err := container.ValidateMachineID(id.Host); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if err := id.Type.Validate(); err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if id.Number < 0 || s != fmt.Sprintf("%s/%s/%d", id.Host, id.Type, id.Number) {
			t.Fatalf("%q was read as %+v", s, id)
		}
		if err := container.ValidateMachineID(s); err != nil {
			t.Fatalf("%q can be no host: %v", s, err)
		}
		// Nothing in it is more than text to a shell, a path or a label.
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789/") != "" || strings.Contains(s, "//") {
			t.Fatalf("%q passed", s)
		}
	})
}
