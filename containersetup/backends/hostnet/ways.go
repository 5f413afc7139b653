package hostnet

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/netplan"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// job is what is to be done for the devices that are configured by the same means.
type job struct {
	way       Way
	bridgings []bridging
	// files are written between the commands before and after.
	files         []plan.File
	before, after [][]string
	// undoBefore is run before the files are put back, undoAfter after.
	undoBefore, undoAfter [][]string
}

// prepare returns the jobs for the devices. It only looks.
func (b *Bridger) prepare(ctx context.Context, todo []bridging) ([]job, error) {
	ways := []Way{Netplan, Ifupdown, Netlink}
	if b.config.Way != Auto {
		ways = []Way{b.config.Way}
	}
	planners := map[Way]func(context.Context, []bridging) (job, error){
		Netplan: b.netplan, Ifupdown: b.ifupdown, Netlink: b.netlink,
	}
	of := map[Way][]bridging{}
	for _, one := range todo {
		var err error
		for _, way := range ways {
			if _, err = planners[way](ctx, []bridging{one}); err == nil {
				of[way] = append(of[way], one)
				break
			}
			// Not configured by this one: by the next.
			if !errors.Is(err, errors.NotFound) {
				break
			}
		}
		if err != nil {
			return nil, errors.Annotatef(err, "device %q", one.Device)
		}
	}
	var jobs []job
	for _, way := range ways {
		if len(of[way]) == 0 {
			continue
		}
		j, err := planners[way](ctx, of[way])
		if err != nil {
			return nil, errors.Annotatef(err, "devices %s", names(of[way]))
		}
		j.way, j.bridgings = way, of[way]
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (b *Bridger) netlink(context.Context, []bridging) (job, error) { return job{}, nil }

func planned(todo []bridging) []plan.Bridging {
	out := make([]plan.Bridging, len(todo))
	for i, t := range todo {
		out[i] = plan.Bridging{Device: t.Device, Bridge: t.Bridge, MAC: t.MAC}
	}
	return out
}

// netplan returns errors.NotFound where there is no netplan, or it knows nothing of a
// device.
func (b *Bridger) netplan(ctx context.Context, todo []bridging) (job, error) {
	files, err := b.netplanFiles(ctx)
	if err != nil {
		return job{}, err
	}
	if len(files) == 0 {
		return job{}, errors.NotFoundf("configuration of netplan")
	}
	if _, err := b.config.Host.Run(ctx, host.Look("netplan", "info")); err != nil {
		return job{}, errors.Annotate(err, "netplan")
	}
	changed, err := netplan.Bridge(files, planned(todo))
	if err != nil {
		return job{}, errors.Trace(err)
	}
	generate, apply := []string{"netplan", "generate"}, []string{"netplan", "apply"}
	if b.config.NetplanRoot != "" {
		generate = append(generate, "--root-dir", b.config.NetplanRoot)
	}
	return job{
		files:     changed,
		after:     [][]string{generate, apply},
		undoAfter: [][]string{generate, apply},
	}, nil
}

// netplanFiles returns them in the order in which netplan reads them: by their base
// names, of which one in a later directory hides one in an earlier.
func (b *Bridger) netplanFiles(ctx context.Context) ([]plan.File, error) {
	paths := map[string]string{}
	for _, dir := range []string{"/lib/netplan", "/etc/netplan", "/run/netplan"} {
		found, err := b.config.Host.Glob(ctx, filepath.Join("/", b.config.NetplanRoot, dir, "*.yaml"))
		if err != nil {
			return nil, errors.Trace(err)
		}
		for _, path := range found {
			paths[filepath.Base(path)] = path
		}
	}
	var files []plan.File
	for _, base := range sortedKeys(paths) {
		data, err := b.config.Host.ReadFile(ctx, paths[base])
		if err != nil {
			return nil, errors.Annotate(err, paths[base])
		}
		files = append(files, plan.File{Name: paths[base], Data: data})
	}
	return files, nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// ifupdown returns errors.NotFound where there is no ifupdown, or it knows nothing of a
// device.
func (b *Bridger) ifupdown(ctx context.Context, todo []bridging) (job, error) {
	read := func(name string) ([]byte, error) { return b.config.Host.ReadFile(ctx, name) }
	glob := func(pattern string) ([]string, error) { return b.config.Host.Glob(ctx, pattern) }
	files, err := interfaces.Follow(read, glob, b.config.InterfacesFile)
	if err != nil {
		return job{}, errors.Trace(err)
	}
	if _, err := b.config.Host.Run(ctx, host.Look("ifup", "--version")); err != nil {
		return job{}, errors.Annotate(err, "ifupdown")
	}
	changed, err := interfaces.Bridge(files, planned(todo))
	if err != nil {
		return job{}, errors.Trace(err)
	}
	j := job{files: changed}
	for _, t := range todo {
		device, bridge := []string{t.Device}, []string{t.Bridge}
		for _, alias := range aliases(files, t.Device) {
			// An alias is up and down by itself, and needs what it is one of.
			device = append(device, alias)
			bridge = append(bridge, t.Bridge+strings.TrimPrefix(alias, t.Device))
		}
		// With force, since what was brought up by other means than ifup is to go down
		// all the same. The device stays in the files, as one that has nothing but its
		// bridge.
		j.before = append(j.before, b.each("ifdown", "--force", reversed(device))...)
		j.after = append(j.after, b.each("ifup", "", append([]string{t.Device}, bridge...))...)
		j.undoBefore = append(j.undoBefore, b.each("ifdown", "--force", append(reversed(bridge), t.Device))...)
		j.undoAfter = append(j.undoAfter, b.each("ifup", "", device)...)
	}
	return j, nil
}

// each returns a command for each interface. One that runs on after whoever started it
// has died has only its own locked, for which the next one waits.
func (b *Bridger) each(name, option string, interfaces []string) [][]string {
	var out [][]string
	for _, i := range interfaces {
		args := []string{name}
		if b.config.InterfacesFile != DefaultInterfacesFile {
			args = append(args, "-i", b.config.InterfacesFile)
		}
		args = append(args, b.config.IfupdownArgs...)
		if option != "" {
			args = append(args, option)
		}
		out = append(out, append(args, i))
	}
	return out
}

func reversed(names []string) []string {
	out := slices.Clone(names)
	slices.Reverse(out)
	return out
}

// aliases returns the names of a device's further addresses, as eth0:1, in the files'
// order.
func aliases(files []plan.File, device string) []string {
	stanza := regexp.MustCompile(`(?m)^[ \t]*iface[ \t]+(` + regexp.QuoteMeta(device) + `:[^ \t\n]+)`)
	var out []string
	for _, f := range files {
		for _, match := range stanza.FindAllSubmatch(f.Data, -1) {
			if name := string(match[1]); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// save returns the files of a job as they are now.
func save(ctx context.Context, files host.Files, changed []plan.File) ([]savedFile, error) {
	var out []savedFile
	for _, f := range changed {
		data, err := files.ReadFile(ctx, f.Name)
		switch {
		case errors.Is(err, errors.NotFound):
			out = append(out, savedFile{Name: f.Name})
		case err != nil:
			return nil, errors.Annotate(err, f.Name)
		default:
			out = append(out, savedFile{Name: f.Name, Existed: true, Data: data})
		}
	}
	return out, nil
}

// isAs tells whether a file is as it was.
func isAs(ctx context.Context, files host.Files, was savedFile) bool {
	data, err := files.ReadFile(ctx, was.Name)
	if errors.Is(err, errors.NotFound) {
		return !was.Existed
	}
	return err == nil && was.Existed && bytes.Equal(data, was.Data)
}
