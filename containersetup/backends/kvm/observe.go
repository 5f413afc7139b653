package kvm

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// observe looks at the host, and changes nothing.
func (i *Initialiser) observe(ctx context.Context) (observed, error) {
	return i.observeAgain(ctx, nil)
}

// observeAgain looks at the host, but takes what there is beside the daemon as it was, if
// that is known.
func (i *Initialiser) observeAgain(ctx context.Context, machine *observed) (observed, error) {
	o := observed{programs: map[string]bool{}, bridges: map[string]bool{}}
	if machine != nil {
		o.arch, o.device, o.programs, o.bridges = machine.arch, machine.device, machine.programs, machine.bridges
	} else if err := i.observeMachine(ctx, &o); err != nil {
		return o, err
	}
	d, err := i.config.dial()
	if err != nil {
		return o, err
	}
	defer d.Close()
	o.version, err = d.Version(ctx)
	switch {
	case err == nil:
		o.answers = true
		return o, i.observeDaemon(ctx, d, &o)
	case ctx.Err() != nil:
		return o, err
	case interrupted(err), errors.Is(err, errors.Timeout):
		return o, nil
	}
	return o, err
}

func (i *Initialiser) observeMachine(ctx context.Context, o *observed) error {
	out, err := i.config.Host.Run(ctx, host.Look("uname", "-m"))
	if err != nil {
		return errors.Annotate(err, "looking for the architecture")
	}
	o.arch = strings.TrimSpace(string(out.Stdout))
	devices, err := i.config.Host.Glob(ctx, "/dev/kvm")
	if err != nil {
		return errors.Annotate(err, "looking for /dev/kvm")
	}
	o.device = len(devices) > 0
	programs := []string{"qemu-img", "libvirtd"}
	if p, ok := platforms()[o.arch]; ok {
		programs = append(programs, p.emulator)
	}
	for _, program := range programs {
		_, err := i.config.Host.Run(ctx, host.Look(program, "--version"))
		if err != nil && !errors.Is(err, errors.NotFound) {
			return errors.Annotatef(err, "looking for %s", program)
		}
		o.programs[program] = err == nil
	}
	if i.config.Network.Bridge == "" {
		return nil
	}
	o.bridges, err = bridges(ctx, i.config.Host)
	return err
}

func (i *Initialiser) observeDaemon(ctx context.Context, d daemon, o *observed) error {
	var err error
	if o.capabilities, err = d.Capabilities(ctx); err != nil {
		return err
	}
	if o.node, err = d.Node(ctx); err != nil {
		return err
	}
	if o.networks, err = d.Networks(ctx); err != nil {
		return err
	}
	pool, err := d.Pool(ctx, i.config.Pool.Name)
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	o.pool = &pool
	found, err := i.config.Host.Glob(ctx, quoted(pool.Path))
	o.dir = len(found) > 0
	return errors.Annotate(err, "looking for the storage pool's folder")
}

// quoted returns the pattern that matches a path alone.
func quoted(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// bridges returns those that the host has. It is asked of the host, not of this process:
// the daemon may be in another network namespace.
func bridges(ctx context.Context, h host.Host) (map[string]bool, error) {
	out, err := h.Run(ctx, host.Look("ip", "-json", "link", "show", "type", "bridge"))
	if err != nil {
		return nil, errors.Annotate(err, "looking at the network")
	}
	var links []struct {
		Name string `json:"ifname"`
	}
	names := map[string]bool{}
	text := strings.TrimSpace(string(out.Stdout))
	if text == "" {
		return names, nil // nothing of the kind
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil {
		return nil, errors.NotValidf("answer of ip")
	}
	for _, l := range links {
		names[l.Name] = l.Name != ""
	}
	return names, nil
}
