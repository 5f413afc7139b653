package machine_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/machine"
	"github.com/sutler-dev/sutler/facade"
)

// kinds are machines of each kind.
func kinds() map[string]machine.Spec {
	all := map[string]machine.Spec{"small": small(), "full": full()}
	for _, arch := range []string{"arm64", "ppc64el", "s390x"} {
		s := full()
		s.Arch, s.Accelerated = arch, false
		all[arch] = s
	}
	software := full()
	software.Accelerated = false
	all["software"] = software
	return all
}

func TestDomainsAreAsTheyWere(t *testing.T) {
	for name, spec := range kinds() {
		t.Run(name, func(t *testing.T) {
			got, err := machine.Describe(spec)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".xml")
			if updates(t) {
				if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
				t.Errorf("(-want +got, -update writes it anew)\n%s", diff)
			}
			if again, err := machine.Describe(spec); err != nil || again != got {
				t.Errorf("described otherwise: %v", err)
			}
		})
	}
}

// TestDomainsAreReadAsTheyWereWritten also has libvirt in between, which adds much and
// writes all in its own way; its driver for tests takes every architecture.
func TestDomainsAreReadAsTheyWereWritten(t *testing.T) {
	for name, spec := range kinds() {
		t.Run(name, func(t *testing.T) {
			text, err := machine.Describe(spec)
			if err != nil {
				t.Fatal(err)
			}
			expectParsed(t, text, spec.WithDefaults())
			t.Run("after libvirt", func(t *testing.T) {
				needs(t, "virsh")
				out := run(t, []byte(text), "virsh", "-q", "-c", "test:///default", "define FILE; dumpxml "+spec.Name)
				_, dumped, ok := strings.Cut(out, "<domain")
				if !ok {
					t.Fatal(out)
				}
				expectParsed(t, "<domain"+dumped, spec.WithDefaults())
				out = run(t, []byte(text), "virsh", "-q", "-c", "test:///default", "define FILE; metadata "+spec.Name+" "+machine.Namespace)
				_, element, _ := strings.Cut(out, "<instance")
				metadata, err := machine.ParseMetadata("<instance" + element)
				if diff := cmp.Diff(spec.Metadata, metadata); err != nil || diff != "" {
					t.Errorf("%v\n%s\n%s", err, diff, out)
				}
			})
		})
	}
}

func expectParsed(t *testing.T, text string, want machine.Spec) {
	t.Helper()
	got, err := machine.Parse(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, text)
	}
	metadata, err := machine.ParseMetadata(text)
	if diff := cmp.Diff(want.Metadata, metadata); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	element := regexp.MustCompile(`(?s)<sutler:instance.*</sutler:instance>`).FindString(text)
	metadata, err = machine.ParseMetadata(element)
	if diff := cmp.Diff(want.Metadata, metadata); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestDomainsFitTheSchema(t *testing.T) {
	needs(t, "virt-xml-validate", "xmllint")
	for name, spec := range kinds() {
		text, err := machine.Describe(spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name, run(t, []byte(text), "virt-xml-validate", "FILE", "domain"))
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	long := strings.Repeat("a", 64)
	for field, change := range map[string]func(*machine.Spec){
		`Name ""`:                          func(s *machine.Spec) { s.Name = "" },
		`Name "a/b"`:                       func(s *machine.Spec) { s.Name = "a/b" },
		`Name "1a"`:                        func(s *machine.Spec) { s.Name = "1a" },
		`Name "a-"`:                        func(s *machine.Spec) { s.Name = "a-" },
		`Name "a\nb"`:                      func(s *machine.Spec) { s.Name = "a\nb" },
		`63 bytes`:                         func(s *machine.Spec) { s.Name = long },
		"Metadata: ModelUUID":              func(s *machine.Spec) { s.Metadata.ModelUUID = "" },
		"Metadata: ControllerUUID":         func(s *machine.Spec) { s.Metadata.ControllerUUID = "a\x00" },
		"Metadata: ContainerID":            func(s *machine.Spec) { s.Metadata.ContainerID = "a\nb" },
		`Metadata: Tags[""]`:               func(s *machine.Spec) { s.Metadata.Tags = map[string]string{"": "x"} },
		`Metadata: Tags["a\n"]`:            func(s *machine.Spec) { s.Metadata.Tags = map[string]string{"a\n": "x"} },
		`Metadata: value of Tags["a"]`:     func(s *machine.Spec) { s.Metadata.Tags = map[string]string{"a": "\x01"} },
		`Metadata: value of Tags["b"]`:     func(s *machine.Spec) { s.Metadata.Tags = map[string]string{"b": "\xff"} },
		`Metadata: value of Tags["c"]`:     func(s *machine.Spec) { s.Metadata.Tags = map[string]string{"c": strings.Repeat("x", 5000)} },
		`Arch "vax" (want one of ["amd64"`: func(s *machine.Spec) { s.Arch = "vax" },
		"Memory of 63 MiB (want 64 to":     func(s *machine.Spec) { s.Memory = 63 },
		"Memory of 16777217 MiB":           func(s *machine.Spec) { s.Memory = 16<<20 + 1 },
		"Cores 256 (want 255 at most)":     func(s *machine.Spec) { s.Cores = 256 },
		"RootDisk of 67108865 MiB":         func(s *machine.Spec) { s.RootDisk = 64<<20 + 1 },
		"empty Disk":                       func(s *machine.Spec) { s.Disk = "" },
		`Disk "a.qcow2"`:                   func(s *machine.Spec) { s.Disk = "a.qcow2" },
		`Seed "a.iso"`:                     func(s *machine.Spec) { s.Seed = "a.iso" },
		`Console "/a\n"`:                   func(s *machine.Spec) { s.Console = "/a\n" },
		"Interfaces[1]: Name":              func(s *machine.Spec) { s.Interfaces[1].Name = "" },
		`Interfaces[1]: Name "eth0"`:       func(s *machine.Spec) { s.Interfaces[1].Name = "eth0" },
		`MAC "52:54:00:00:00:01", which`: func(s *machine.Spec) {
			s.Interfaces[0].MAC, s.Interfaces[1].MAC = "52:54:00:00:00:01", "52:54:00:00:00:01"
		},
		`Interfaces[1]: MAC "01:`: func(s *machine.Spec) { s.Interfaces[1].MAC = "01:00:5e:00:00:01" },
		`Interfaces[1]: MAC "52-`: func(s *machine.Spec) { s.Interfaces[1].MAC = "52-54-00-00-00-01" },
		`Interfaces[1]: MAC "00:00:00:00:fe`: func(s *machine.Spec) {
			s.Interfaces[1].MAC = "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:5e:10:00:00:00:01"
		},
		"Interfaces[1]: MTU 67":          func(s *machine.Spec) { s.Interfaces[1].MTU = 67 },
		"Interfaces[1]: MTU 65536":       func(s *machine.Spec) { s.Interfaces[1].MTU = 65536 },
		"empty Network and empty Parent": func(s *machine.Spec) { s.Interfaces[0].Network = "" },
		`Interfaces[0]: Network "a/b"`:   func(s *machine.Spec) { s.Interfaces[0].Network = "a/b" },
		"Interfaces[1]: interface":       func(s *machine.Spec) { s.Interfaces[1].Gateway = "x" },
	} {
		s := full()
		change(&s)
		_, err := machine.Describe(s)
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestWhatIsNotAskedForHasADefault(t *testing.T) {
	s := small().WithDefaults()
	if s.Arch != "amd64" || s.Memory != 512 || s.Cores != 1 || s.RootDisk != 8192 {
		t.Errorf("%+v", s)
	}
	given := full()
	before := given.Interfaces[0].MAC
	_ = given.WithDefaults()
	if given.Interfaces[0].MAC != before {
		t.Error("what was given is changed")
	}
}

// TestIdentitiesAreTheirOwn has what follows from a container be the same each time, and
// be no other's.
func TestIdentitiesAreTheirOwn(t *testing.T) {
	seen := map[string]string{}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, model := range []string{modelUUID, controllerUUID} {
		for _, id := range []string{"0/kvm/0", "0/kvm/1", "1/kvm/0", "0/kvm/0/kvm/0"} {
			m := machine.Metadata{ModelUUID: model, ContainerID: id}
			for _, identity := range []string{machine.UUID(m), machine.MAC(m, 0), machine.MAC(m, 1)} {
				if other, ok := seen[identity]; ok {
					t.Errorf("%s is of %s and of %s", identity, id, other)
				}
				seen[identity] = id
			}
			upper := m
			upper.ModelUUID = strings.ToUpper(model)
			upper.Tags = map[string]string{"a": "b"}
			if machine.UUID(m) != machine.UUID(upper) || machine.MAC(m, 1) != machine.MAC(upper, 1) {
				t.Errorf("%s is another one the second time", id)
			}
			if !uuid.MatchString(machine.UUID(m)) {
				t.Error(machine.UUID(m))
			}
			mac, err := net.ParseMAC(machine.MAC(m, 0))
			if err != nil || !strings.HasPrefix(mac.String(), "52:54:00:") {
				t.Error(mac, err)
			}
		}
	}
}

func TestDomainsOfOthersAreKnown(t *testing.T) {
	const ours = `<s:instance xmlns:s="https://sutler.dev/ns/domain/1"><s:model>m</s:model></s:instance>`
	for text, kind := range map[string]error{
		"":                             errors.NotFound,
		"<domain/>":                    errors.NotFound,
		"<domain><metadata/></domain>": errors.NotFound,
		"<domain><metadata><instance xmlns='https://other/1'/></metadata></domain>":                errors.NotFound,
		"<domain><metadata><instance/></metadata></domain>":                                        errors.NotFound,
		"<domain><metadata><instance xmlns='https://sutler.dev/ns/domain/2'/></metadata></domain>": errors.NotFound,
		"<domain><metadata><x>" + ours + "</x></metadata></domain>":                                errors.NotFound,
		"<domain><description>" + ours + "</description></domain>":                                 errors.NotFound,
		"<x><metadata>" + ours + "</metadata></x>":                                                 errors.NotFound,
		"<domain><metadata><instance xmlns='https://sutler.dev/ns/domain/1'></metadata></domain>":  errors.NotValid,
		"<domain>": errors.NotValid,
		"<domain><metadata><i:instance xmlns:i='https://sutler.dev/ns/domain/1'><i:rootdisk>x</i:rootdisk></i:instance></metadata></domain>": errors.NotValid,
		"<domain><metadata>" + ours + "</metadata></domain>":                                           nil,
		"<domain xmlns:s='https://sutler.dev/ns/domain/1'><metadata><s:instance/></metadata></domain>": nil,
	} {
		_, err := machine.ParseMetadata(text)
		_, parseErr := machine.Parse(text)
		if kind == nil && (err != nil || parseErr != nil) || kind != nil && (!errors.Is(err, kind) || !errors.Is(parseErr, kind)) {
			t.Errorf("%s: %v, %v", text, err, parseErr)
		}
	}
}

func TestMemoryIsReadInEveryUnit(t *testing.T) {
	for text, want := range map[string]uint64{
		"<memory>1048576</memory>": 1024, "<memory unit='KiB'>1048576</memory>": 1024, "<memory unit='b'>1048576</memory>": 1, "<memory unit='bytes'>1048575</memory>": 0,
		"<memory unit='GiB'>2</memory>": 2048, "<memory unit='GB'>2</memory>": 1907, "<memory unit='M'>3</memory>": 3, "<memory unit='what'>3</memory>": 0,
		"<memory unit='TiB'>18446744073709551615</memory>": 0, "": 0,
	} {
		s, err := machine.Parse("<domain>" + text + "<metadata><s:instance xmlns:s='https://sutler.dev/ns/domain/1'/></metadata></domain>")
		if err != nil || s.Memory != want {
			t.Errorf("%s: %d, %v", text, s.Memory, err)
		}
	}
}

// FuzzDescribe has no name or value come out as another one, or as XML of its own.
func FuzzDescribe(f *testing.F) {
	f.Add("juju-1", modelUUID, "0/kvm/1", "key", "value", "/disk", "default", "eth0")
	f.Add("a", "m", "]]>", "</sutler:tag>", "\r\n\t ", "/a b&c", "a.b", "e")
	f.Add("a", "<!--", "&amp;", "k\u2028", "\ufffe", "/\"'", "-", "\"")
	f.Fuzz(func(t *testing.T, name, model, id, key, value, path, network, nic string) {
		s := small()
		s.Name, s.Disk, s.Seed, s.Console = name, path, path+"2", path+"3"
		s.Metadata = machine.Metadata{ModelUUID: model, ControllerUUID: model, ContainerID: id, Tags: map[string]string{key: value}}
		s.Interfaces = []machine.Interface{{Network: network, NetworkInterface: facade.NetworkInterface{Name: nic, Type: facade.EthernetInterface}}}
		text, err := machine.Describe(s)
		if err != nil {
			if !errors.Is(err, errors.NotValid) {
				t.Fatal(err)
			}
			return
		}
		expectParsed(t, text, s.WithDefaults())
	})
}

// FuzzParse has no text break anything.
func FuzzParse(f *testing.F) {
	for name := range kinds() {
		data, err := os.ReadFile(filepath.Join("testdata", name+".xml"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := machine.Parse(text)
		if err != nil && !slices.ContainsFunc([]error{errors.NotFound, errors.NotValid}, func(kind error) bool { return errors.Is(err, kind) }) {
			t.Fatal(err)
		}
	})
}
