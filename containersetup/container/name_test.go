package container_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/container"
)

const modelUUID = "deadbeef-0bad-400d-8000-4b1d0d06f00d"

// dnsLabel is what LXD, libvirt and a resolver take as a name.
var dnsLabel = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

func instanceName(t testing.TB, id string) string {
	t.Helper()
	name, err := container.InstanceName(modelUUID, id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	if len(name) > container.MaxInstanceName || !dnsLabel.MatchString(name) {
		t.Fatalf("%s: %q is no name", id, name)
	}
	if !strings.HasPrefix(name, "juju-06f00d-") {
		t.Fatalf("%s: %q does not name the model", id, name)
	}
	return name
}

func TestInstanceNames(t *testing.T) {
	for id, want := range map[string]string{
		"0/lxd/1":       "juju-06f00d-0-lxd-1",
		"0/kvm/2/lxd/0": "juju-06f00d-0-kvm-2-lxd-0",
		// 63 bytes, and one more.
		"123456789/lxd/123456789/lxd/123456789/lxd/123456789": "juju-06f00d-123456789-lxd-123456789-lxd-123456789-lxd-123456789",
	} {
		if got := instanceName(t, id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	long := instanceName(t, "123456789/lxdx/123456789/lxd/123456789/lxd/123456789")
	if want := "juju-06f00d-123456789-lxdx-123456789-lxd-1234-x"; !strings.HasPrefix(long, want[:45]+"-x") || len(long) != 63 {
		t.Errorf("%s, want a name of 63 bytes that begins as %s", long, want)
	}
	if long != instanceName(t, "123456789/lxdx/123456789/lxd/123456789/lxd/123456789") {
		t.Error("another name for the same id")
	}
}

func TestInstanceNamesOfWhatIsNone(t *testing.T) {
	for _, id := range []string{"", "0", "0/lxd", "../../etc", "0/lxd/1\n", strings.Repeat("a", 10_000)} {
		name, err := container.InstanceName(modelUUID, id)
		checkNotValid(t, err, "container id")
		if name != "" {
			t.Errorf("%q is named %q", id, name)
		}
	}
	for _, uuid := range []string{
		"", "prod", "deadbeef", modelUUID + "0", modelUUID[1:], "{" + modelUUID + "}", strings.ReplaceAll(modelUUID, "-", ""),
		strings.Replace(modelUUID, "d", "g", 1), modelUUID + "\n", " " + modelUUID, strings.Repeat("a", 10_000), "\xff",
	} {
		name, err := container.InstanceName(uuid, "0/lxd/1")
		checkNotValid(t, err, "model UUID")
		if name != "" {
			t.Errorf("%q: named %q", uuid, name)
		}
	}
}

func TestInstancePrefix(t *testing.T) {
	for _, uuid := range []string{modelUUID, strings.ToUpper(modelUUID)} {
		if got, err := container.InstancePrefix(uuid); err != nil || got != "juju-06f00d-" {
			t.Errorf("%s: %q, %v", uuid, got, err)
		}
	}
}

// H13, github.com/canonical/charmcraft/issues/629: names of instances that were
// too long, began with a digit or had dots in them, found out by LXD.
func TestH13NamesAreCheckedAndShortenedAtTheEdge(t *testing.T) {
	for _, id := range []string{
		"0/lxd/1", "999999999/lxd/0", "0/" + strings.Repeat("a", 32) + "/1",
		"0/" + strings.Repeat("a", 32) + "/1/" + strings.Repeat("b", 32) + "/2",
		"0" + strings.Repeat("/lxd/0", 150),
	} {
		instanceName(t, id) // checks what it returns
	}
	for _, id := range []string{"0/lxd.d/1", "0.0/lxd/1", "0/lxd/1.5"} {
		_, err := container.InstanceName(modelUUID, id)
		checkNotValid(t, err, "container id")
	}
}

// Ids that differ only where they are cut, or only by what a cut name looks like.
func TestNoTwoIDsShareAName(t *testing.T) {
	names := map[string]string{}
	add := func(t *testing.T, id string) {
		t.Helper()
		name := instanceName(t, id)
		if other, ok := names[name]; ok && other != id {
			t.Fatalf("%s and %s are both named %s", id, other, name)
		}
		names[name] = id
	}
	long := "0" + strings.Repeat("/lxd/0", 20)
	for n := range 1000 {
		add(t, fmt.Sprintf("0/lxd/%d", n))
		add(t, fmt.Sprintf("%s/lxd/%d", long, n))
		add(t, fmt.Sprintf("%d%s", n, strings.Repeat("/lxd/0", 20)))
	}
	// Ids whose own names are what long ones are cut to, as near as an id
	// comes to that.
	for name := range names {
		id := strings.ReplaceAll(strings.TrimPrefix(name, "juju-06f00d-"), "-", "/")
		for _, near := range []string{id, id + "/0", id + "/lxd/0"} {
			if _, err := container.ParseID(near); err == nil {
				add(t, near)
			}
		}
	}
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 2000 {
				add(t, randomID(rng))
			}
		})
	}
}

// randomID is one of ids that are much alike, short and long.
func randomID(rng *rand.Rand) string {
	number := func() string { return strconv.Itoa(rng.IntN([]int{2, 20, 1e9}[rng.IntN(3)])) }
	id := number()
	for range 1 + rng.IntN(1+rng.IntN(12)) {
		kind := []string{"lxd", "kvm", "l", "x", "x0123456789abcdef", strings.Repeat("x", 32)}[rng.IntN(6)]
		id += "/" + kind + "/" + number()
	}
	return id
}

// FuzzInstanceName: any two ids have two names, each of which is one.
func FuzzInstanceName(f *testing.F) {
	long := "0" + strings.Repeat("/lxd/0", 20)
	f.Add("0/lxd/1", "0/lxd/11")
	f.Add("0/lxd/1", "0/lxd/1")
	f.Add(long+"/lxd/1", long+"/lxd/2")
	f.Add("0/lxd/1/kvm/2", "0/lxd")
	f.Fuzz(func(t *testing.T, a, b string) {
		var names []string
		for _, id := range []string{a, b} {
			if _, err := container.ParseID(id); err != nil {
				if _, err := container.InstanceName(modelUUID, id); err == nil {
					t.Fatalf("%q has a name", id)
				}
				return
			}
			names = append(names, instanceName(t, id))
		}
		if (a == b) != (names[0] == names[1]) {
			t.Fatalf("%s is named %s, %s is named %s", a, names[0], b, names[1])
		}
	})
}
