package kvm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

// What is decided here is decided from what was observed and from nothing else, so that
// the same function plans, acts, and is tested by a table.

// observed is what was seen of the host.
type observed struct {
	// arch is that of the host, by the kernel's name.
	arch string
	// device tells that there is /dev/kvm.
	device bool
	// programs are those of which it was looked whether they are there.
	programs map[string]bool

	// answers tells that libvirtd does; what follows is not known otherwise.
	answers      bool
	version      virt.Version
	capabilities virt.Capabilities
	node         virt.Node
	// pool is the one of the configured name, if there is one.
	pool *virt.Pool
	// dir tells that the folder of the pool is there.
	dir      bool
	networks []virt.Network
	// bridges are those that the host has; they are looked at only if one is configured.
	bridges map[string]bool
}

// oldest is the first libvirt that knows all that is used here.
const oldest = virt.Version(7001000)

// platform is what runs guests of an architecture.
type platform struct {
	arch string // the controller's word
	// emulator is its program, and pkg Debian's package that has it.
	emulator, pkg string
}

// platforms are by the kernel's words for architectures, which are libvirt's, too.
func platforms() map[string]platform {
	return map[string]platform{
		"x86_64":  {"amd64", "qemu-system-x86_64", "qemu-system-x86"},
		"aarch64": {"arm64", "qemu-system-aarch64", "qemu-system-arm"},
		"ppc64le": {"ppc64el", "qemu-system-ppc64", "qemu-system-ppc"},
		"s390x":   {"s390x", "qemu-system-s390x", "qemu-system-misc"},
	}
}

// machineOf returns the kernel's word for one of the controller's.
func machineOf(arch string) string {
	for name, p := range platforms() {
		if p.arch == arch {
			return name
		}
	}
	return ""
}

// packages are those that programs come with.
func packages() map[string]string {
	names := map[string]string{"libvirtd": "libvirt-daemon-system", "qemu-img": "qemu-utils"}
	for _, p := range platforms() {
		names[p.emulator] = p.pkg
	}
	return names
}

// kind is what a step is about.
type kind string

const (
	install      kind = "install"
	await        kind = "await"
	definePool   kind = "define pool"
	buildPool    kind = "build pool"
	startPool    kind = "start pool"
	autoPool     kind = "autostart pool"
	startNetwork kind = "start network"
	autoNetwork  kind = "autostart network"
)

// step is one thing to do to the host.
type step struct {
	Kind kind `json:"kind"`
	// Name is what is made or changed.
	Name string `json:"name"`
	// Dir is the folder of a pool.
	Dir string `json:"dir,omitempty"`
	// Packages are those to be installed.
	Packages []string `json:"packages,omitempty"`
	// Added are the packages that an installation added; Had are those that there were
	// before, while it is not known to have ended.
	Added []string `json:"added,omitempty"`
	Had   []string `json:"had,omitempty"`

	// why is what was seen that makes it necessary.
	why string
}

// String tells it to people.
func (s step) String() string {
	switch s.Kind {
	case install:
		return "install " + strings.Join(s.Packages, ", ")
	case await:
		return "wait for libvirtd"
	case definePool:
		return fmt.Sprintf("define the storage pool %s (%s)", s.Name, s.Dir)
	case buildPool:
		return fmt.Sprintf("make the folder of the storage pool %s", s.Name)
	case startPool:
		return fmt.Sprintf("start the storage pool %s", s.Name)
	case autoPool:
		return fmt.Sprintf("have the storage pool %s start with the host", s.Name)
	case startNetwork:
		return fmt.Sprintf("start the network %s", s.Name)
	default:
		return fmt.Sprintf("have the network %s start with the host", s.Name)
	}
}

// decide returns what is yet to be done, in order. What cannot be known before an earlier
// step was done is decided as for a daemon that is new.
func decide(c Config, o observed) ([]step, error) {
	p, ok := platforms()[o.arch]
	if !ok {
		return nil, errors.NotSupportedf("KVM on architecture %q (want one of %s)", o.arch, strings.Join(slices.Sorted(maps.Keys(platforms())), ", "))
	}
	steps, err := decideDaemon(c, o, p)
	if err != nil {
		return nil, err
	}
	poolSteps, err := decidePool(c, o)
	if err != nil {
		return nil, err
	}
	steps = append(steps, poolSteps...)
	networkSteps, err := decideNetwork(c, o)
	return append(steps, networkSteps...), err
}

// decideDaemon has there be what runs machines, if there can.
func decideDaemon(c Config, o observed, p platform) ([]step, error) {
	if !o.device && !c.AllowEmulation {
		// Nothing is installed for that.
		return nil, errors.NotSupportedf("KVM: there is no /dev/kvm on this host, and emulation by software, which is slow, is not allowed (kvm-emulation): that")
	}
	var lacking, names []string
	wanted := []string{p.emulator, "qemu-img"}
	if !o.answers {
		wanted = append(wanted, "libvirtd")
	}
	for _, program := range wanted {
		if !o.programs[program] {
			lacking, names = append(lacking, program), append(names, packages()[program])
		}
	}
	var steps []step
	if len(lacking) > 0 {
		slices.Sort(names)
		steps = append(steps, step{Kind: install, Name: "libvirt", Packages: names, why: "there is no " + strings.Join(lacking, ", no ")})
	}
	if !o.answers {
		return append(steps, step{Kind: await, why: "no libvirtd answers"}), nil
	}
	if o.version < oldest {
		return nil, errors.NotSupportedf("libvirt %s (want %s or later)", o.version, oldest)
	}
	if len(lacking) > 0 {
		return steps, nil // what there can be run is known then
	}
	guest, ok := o.capabilities.Guest(o.arch)
	switch {
	case !ok:
		return nil, errors.NotSupportedf("running %s machines by libvirt, which finds no emulator for them: that", o.arch)
	case !guest.Accelerated() && !c.AllowEmulation:
		return nil, errors.NotSupportedf("KVM: libvirt cannot use /dev/kvm, and emulation by software, which is slow, is not allowed (kvm-emulation): that")
	}
	return steps, nil
}

// decidePool has there be an active pool. One of the name that is there is used where it
// is, as by the agent of another model.
func decidePool(c Config, o observed) ([]step, error) {
	name := c.Pool.Name
	at := func(k kind, why string) step { return step{Kind: k, Name: name, Dir: c.dir(), why: why} }
	if o.pool == nil {
		return []step{
			at(definePool, "libvirt has no storage pool of that name"), at(buildPool, "it is not there"),
			at(startPool, "it is not active"), at(autoPool, "it does not yet"),
		}, nil
	}
	switch {
	case o.pool.Type != "dir":
		return nil, errors.AlreadyExistsf("storage pool %q of type %q, which is none of folders: configure another name; it", name, o.pool.Type)
	case c.Pool.Dir != "" && o.pool.Path != c.dir():
		return nil, errors.AlreadyExistsf("storage pool %q in %s, and not in %s: configure another name; it", name, o.pool.Path, c.dir())
	}
	var steps []step
	if !o.pool.Active {
		if !o.dir {
			steps = append(steps, at(buildPool, "it is not there"))
		}
		steps = append(steps, at(startPool, "it is not active"))
	}
	if o.pool.Persistent && !o.pool.Autostart {
		steps = append(steps, at(autoPool, "it does not yet"))
	}
	for n := range steps {
		steps[n].Dir = o.pool.Path
	}
	return steps, nil
}

// decideNetwork has the network be active that interfaces are on by default.
func decideNetwork(c Config, o observed) ([]step, error) {
	if bridge := c.Network.Bridge; bridge != "" {
		if !o.bridges[bridge] {
			return nil, errors.NotFoundf("bridge %q, which is configured,", bridge)
		}
		return nil, nil
	}
	if c.Network.Networking == Provider {
		return nil, nil
	}
	name := c.Network.Name
	start := step{Kind: startNetwork, Name: name, why: "it is not active"}
	auto := step{Kind: autoNetwork, Name: name, why: "it does not yet"}
	if !o.answers {
		return []step{start, auto}, nil
	}
	n := slices.IndexFunc(o.networks, func(n virt.Network) bool { return n.Name == name })
	if n < 0 {
		return nil, errors.NotFoundf("network %q of libvirt, which is configured,", name)
	}
	var steps []step
	if !o.networks[n].Active {
		steps = append(steps, start)
	}
	if o.networks[n].Persistent && !o.networks[n].Autostart {
		steps = append(steps, auto)
	}
	return steps, nil
}

// Step is one thing that an [Initialiser] would do, for people.
type Step struct {
	// What is to be done.
	What string
	// Why says what was seen that makes it necessary.
	Why string
}

// String returns what and why, in one line.
func (s Step) String() string { return s.What + ": " + s.Why }

// told returns the steps for people.
func told(steps []step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		out[i] = Step{What: s.String(), Why: s.why}
	}
	return out
}
