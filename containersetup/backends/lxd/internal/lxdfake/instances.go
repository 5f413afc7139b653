package lxdfake

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

// says returns an error in LXD's words, which do not follow the rules for Go's.
func says(format string, args ...any) error { return fmt.Errorf(format, args...) }

// checkConfig refuses keys that no instance has.
func checkConfig(config map[string]string) error {
	for _, key := range names(config) {
		section, _, _ := strings.Cut(key, ".")
		switch section {
		case "agent", "boot", "cloud-init", "cluster", "environment", "image", "limits", "linux", "migration", "nvidia",
			"placement", "raw", "security", "snapshots", "user", "volatile":
		default:
			return says("Unknown configuration key: %s", key)
		}
		if value := config[key]; key == "limits.memory" && strings.Trim(value, "0123456789KMGTiB%") != "" {
			return says("Invalid value: %s", value)
		}
	}
	return nil
}

// checkDevices refuses devices that refer to what is not there, with a code for
// where there is no operation. A pool is not looked for before an instance needs it.
func (f *Fake) checkDevices(devices api.Devices) (int, error) {
	for _, name := range names(devices) {
		d := devices[name]
		switch d["type"] {
		case "nic":
			if network := d["network"]; network != "" && (f.state.networks[network] == nil || !f.state.networks[network].managed) {
				return http.StatusNotFound, says("Device validation failed for %q: Failed loading device %q: Failed to load network %q for project %q: Network not found",
					name, name, network, "default")
			}
		case "disk", "none", "proxy", "unix-char", "unix-block", "usb", "gpu":
		default:
			return http.StatusInternalServerError, says("Device validation failed for %q: Unsupported device type", name)
		}
	}
	return 0, nil
}

// checkType refuses devices of a type that there is none of.
func checkType(devices api.Devices) error {
	for _, name := range names(devices) {
		switch kind := devices[name]["type"]; kind {
		case "nic", "disk", "none", "proxy", "unix-char", "unix-block", "usb", "gpu":
		default:
			return says("Invalid device type %s", kind)
		}
	}
	return nil
}

func hasRoot(devices api.Devices) bool { return rootPool(devices) != "" }

// rootPool is the pool of the root disk.
func rootPool(devices api.Devices) string {
	for _, d := range devices {
		if d["type"] == "disk" && d["path"] == "/" {
			return d["pool"]
		}
	}
	return ""
}

func (f *Fake) instanceJSON(name string) map[string]any {
	i := f.state.instances[name]
	config, devices := f.state.expand(i)
	return map[string]any{
		"name": name, "description": i.description, "type": i.kind, "status": words(i.status), "status_code": i.status,
		"architecture": architecture, "config": clone(i.config), "expanded_config": config,
		"devices": cloneDevices(i.devices), "expanded_devices": devices,
		"profiles": i.profiles, "ephemeral": i.ephemeral, "stateful": false, "created_at": i.created, "location": "none",
		"project": "default",
	}
}

func (i *instanceState) etag() any {
	return []any{architecture, i.config, i.devices, i.ephemeral, i.profiles}
}

func (f *Fake) getInstances(*http.Request, []byte) reply {
	all := []any{}
	for _, name := range names(f.state.instances) {
		all = append(all, f.instanceJSON(name))
	}
	return reply{data: all}
}

// instance returns the one that a path names.
func (f *Fake) instance(r *http.Request) (string, *instanceState, reply) {
	name := r.PathValue("name")
	i := f.state.instances[name]
	if i == nil {
		return name, nil, refuse(http.StatusNotFound, "Instance not found")
	}
	return name, i, reply{}
}

func (f *Fake) getInstance(r *http.Request, _ []byte) reply {
	name, i, missing := f.instance(r)
	if i == nil {
		return missing
	}
	return reply{data: f.instanceJSON(name), etag: i.etag()}
}

func (f *Fake) getInstanceState(r *http.Request, _ []byte) reply {
	_, i, missing := f.instance(r)
	if i == nil {
		return missing
	}
	data := map[string]any{
		"status": words(i.status), "status_code": i.status, "disk": map[string]any{},
		"memory": map[string]any{"usage": 0, "usage_peak": 0, "swap_usage": 0, "swap_usage_peak": 0},
		"pid":    0, "processes": 0, "cpu": map[string]any{"usage": 0}, "network": nil,
	}
	if i.status == api.StatusRunning {
		data["network"], data["pid"], data["processes"] = f.state.interfaces(i), 1000+i.number, 2
		data["memory"].(map[string]any)["usage"] = 888832
	}
	return reply{data: data}
}

func (f *Fake) postInstance(_ *http.Request, body []byte) reply {
	var post struct {
		Name, Description, Type string
		Source                  struct{ Type, Alias, Fingerprint string }
		Profiles                []string
		Config                  map[string]string
		Devices                 api.Devices
		Ephemeral               bool
	}
	if bad, ok := parse(body, &post); !ok {
		return bad
	}
	name := post.Name
	if err := checkName(name); err != nil {
		return refuse(http.StatusBadRequest, "Invalid instance name: %v", err)
	}
	image, found := "", false
	if post.Source.Alias != "" {
		if image, found = f.state.aliases[post.Source.Alias]; !found {
			return refuse(http.StatusNotFound, "Image alias not found")
		}
	} else {
		image, found = f.state.image(post.Source.Fingerprint)
	}
	if post.Profiles == nil {
		post.Profiles = []string{"default"}
	}
	for _, profile := range post.Profiles {
		if f.state.profiles[profile] == nil {
			return refuse(http.StatusInternalServerError, "Requested profile %q doesn't exist", profile)
		}
	}
	if post.Type == "" {
		post.Type = "container"
	}
	return reply{
		async: true,
		begin: func() error {
			if !found {
				return says("Image not provided for instance creation")
			}
			i := &instanceState{
				kind: post.Type, description: post.Description, status: api.StatusStopped,
				config: clone(post.Config), devices: cloneDevices(post.Devices), profiles: post.Profiles,
				ephemeral: post.Ephemeral, created: time.Now().UTC(), halfMade: true,
			}
			_, devices := f.state.expand(i)
			err := checkConfig(i.config)
			if err == nil {
				err = checkType(i.devices)
			}
			_, bad := f.checkDevices(devices)
			switch {
			case err != nil:
			case f.state.instances[name] != nil:
				err = says(`Add instance info to the database: This "instances" entry already exists`)
			case bad != nil:
				err = says("Failed initialising instance: Invalid devices: %w", bad)
			case !hasRoot(devices):
				err = says("Failed initialising instance: Failed getting root disk: No root device could be found")
			case f.state.pools[rootPool(devices)] == nil:
				err = says("Failed initialising instance: Failed loading storage pool: Storage pool not found")
			}
			if err != nil {
				return says("Failed creating instance record: %w", err)
			}
			i.number = f.state.next()
			i.config["volatile.base_image"] = image
			for _, device := range names(devices) {
				if devices[device]["type"] == "nic" && devices[device]["hwaddr"] == "" {
					i.config["volatile."+device+".hwaddr"] = fmt.Sprintf("00:16:3e:00:%02x:%02x", i.number>>8&0xff, i.number&0xff)
				}
			}
			f.state.instances[name] = i
			return nil
		},
		finish: func() (any, error) {
			if i := f.state.instances[name]; i != nil {
				i.halfMade = false
			}
			return nil, nil
		},
	}
}

func checkName(name string) error {
	switch {
	case name == "":
		return says("Instance name can't be empty")
	case len(name) > 63:
		return says("Name must be 1-63 characters long")
	case name[0] >= '0' && name[0] <= '9':
		return says("Name must not start with a number")
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != "":
		return says("Name can only contain alphanumeric and hyphen characters")
	}
	return nil
}

func (f *Fake) putInstance(r *http.Request, body []byte) reply {
	_, i, missing := f.instance(r)
	if i == nil {
		return missing
	}
	if refusal, bad := changed(r, i.etag()); bad {
		return refusal
	}
	var put struct {
		Description string
		Config      map[string]string
		Devices     api.Devices
		Profiles    []string
		Ephemeral   bool
	}
	if bad, ok := parse(body, &put); !ok {
		return bad
	}
	return reply{async: true, finish: func() (any, error) {
		after := *i
		after.description, after.config, after.devices = put.Description, clone(put.Config), cloneDevices(put.Devices)
		after.profiles, after.ephemeral = append([]string{}, put.Profiles...), put.Ephemeral
		_, err := f.update(i, after)
		return nil, err
	}}
}

func (f *Fake) patchInstance(r *http.Request, body []byte) reply {
	_, i, missing := f.instance(r)
	if i == nil {
		return missing
	}
	if refusal, bad := changed(r, i.etag()); bad {
		return refusal
	}
	var patch struct {
		Description string
		Config      map[string]string
		Devices     api.Devices
		Profiles    []string
	}
	if bad, ok := parse(body, &patch); !ok {
		return bad
	}
	after := *i
	after.description = patch.Description // LXD 5.0 does not keep it
	after.config, after.devices = clone(i.config), cloneDevices(i.devices)
	maps.Copy(after.config, patch.Config)
	maps.DeleteFunc(after.config, func(_, value string) bool { return value == "" })
	maps.Copy(after.devices, cloneDevices(patch.Devices))
	if patch.Profiles != nil {
		after.profiles = patch.Profiles
	}
	if code, err := f.update(i, after); err != nil {
		return refuse(code, "%v", err)
	}
	return reply{data: struct{}{}}
}

// update replaces what is there, if it may be so.
func (f *Fake) update(i *instanceState, after instanceState) (int, error) {
	if err := checkConfig(after.config); err != nil {
		return http.StatusInternalServerError, says("Invalid config: %w", err)
	}
	_, devices := f.state.expand(&after)
	if code, err := f.checkDevices(devices); err != nil {
		return code, says("Invalid devices: %w", err)
	}
	if !hasRoot(devices) {
		return http.StatusInternalServerError, says("Invalid devices: Failed detecting root disk device: No root device could be found")
	}
	*i = after
	return 0, nil
}

func (f *Fake) putInstanceState(r *http.Request, body []byte) reply {
	name, i, missing := f.instance(r)
	if i == nil {
		return missing
	}
	var put struct {
		Action string
		Force  bool
	}
	if bad, ok := parse(body, &put); !ok {
		return bad
	}
	switch put.Action {
	case "start":
		return reply{async: true, finish: func() (any, error) { return nil, f.startInstance(i) }}
	case "stop":
		return reply{async: true, finish: func() (any, error) {
			switch {
			case i.status == api.StatusStopped:
				return nil, says("The instance is already stopped")
			case i.stubborn && !put.Force:
				return nil, says(`Failed shutting down instance, status is "Running": shutting down the container failed`)
			}
			i.status = api.StatusStopped
			if i.ephemeral {
				delete(f.state.instances, name)
			}
			return nil, nil
		}}
	}
	return refuse(http.StatusBadRequest, "Unknown action %s", put.Action)
}

func (f *Fake) startInstance(i *instanceState) error {
	switch {
	case i.status == api.StatusRunning:
		return says("The instance is already running")
	case i.halfMade:
		return says("Failed to run: the instance has no root file system")
	}
	_, devices := f.state.expand(i)
	for _, name := range names(devices) {
		if parent := devices[name]["parent"]; devices[name]["type"] == "nic" && parent != "" && f.state.networks[parent] == nil {
			return says("Failed to start device %q: Parent device %q doesn't exist", name, parent)
		}
	}
	i.status = api.StatusRunning
	return nil
}

func (f *Fake) deleteInstance(r *http.Request, _ []byte) reply {
	name, i, missing := f.instance(r)
	switch {
	case i == nil:
		return missing
	case i.status != api.StatusStopped && i.status != api.StatusError:
		return refuse(http.StatusBadRequest, "Instance is running")
	}
	return reply{async: true, finish: func() (any, error) {
		delete(f.state.instances, name)
		return nil, nil
	}}
}

func (f *Fake) getAlias(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	target, ok := f.state.aliases[name]
	if !ok {
		return refuse(http.StatusNotFound, "Image alias not found")
	}
	return reply{etag: []string{name, target}, data: map[string]any{"name": name, "target": target, "description": "", "type": "container"}}
}

func (f *Fake) getImage(r *http.Request, _ []byte) reply {
	fingerprint, ok := f.state.image(r.PathValue("name"))
	if !ok {
		return refuse(http.StatusNotFound, "Image not found")
	}
	aliases := []any{}
	for _, name := range names(f.state.aliases) {
		if f.state.aliases[name] == fingerprint {
			aliases = append(aliases, map[string]any{"name": name, "description": ""})
		}
	}
	return reply{etag: fingerprint, data: map[string]any{
		"fingerprint": fingerprint, "aliases": aliases, "type": "container", "architecture": architecture, "size": 1 << 20,
		"properties": map[string]string{"os": "tiny"}, "auto_update": f.state.images[fingerprint].autoUpdate,
		"cached": false, "public": false, "created_at": time.Unix(1700000000, 0).UTC(), "uploaded_at": time.Unix(1700000000, 0).UTC(),
	}}
}

func (f *Fake) deleteImage(r *http.Request, _ []byte) reply {
	fingerprint, ok := f.state.image(r.PathValue("name"))
	if !ok {
		return refuse(http.StatusNotFound, "Image not found")
	}
	return reply{async: true, finish: func() (any, error) {
		delete(f.state.images, fingerprint)
		maps.DeleteFunc(f.state.aliases, func(_, target string) bool { return target == fingerprint })
		return nil, nil
	}}
}

func (f *Fake) postImage(_ *http.Request, body []byte) reply {
	var post struct {
		Source struct {
			Type, Mode, Server, Protocol, Alias, Fingerprint string
		}
		Aliases    []struct{ Name string }
		AutoUpdate bool `json:"auto_update"`
	}
	if bad, ok := parse(body, &post); !ok {
		return bad
	}
	return reply{async: true, finish: func() (any, error) {
		fingerprint := f.state.remote[post.Source.Alias]
		if fingerprint == "" && slices.Contains(slices.Collect(maps.Values(f.state.remote)), post.Source.Fingerprint) {
			fingerprint = post.Source.Fingerprint
		}
		if fingerprint == "" {
			return nil, says("Failed getting remote image info: Failed getting image: The requested image couldn't be found")
		}
		if _, there := f.state.images[fingerprint]; !there {
			f.state.downloads++
			f.state.images[fingerprint] = imageState{autoUpdate: post.AutoUpdate}
		}
		for _, alias := range post.Aliases {
			if _, there := f.state.aliases[alias.Name]; there {
				return nil, says("Alias already exists: %s", alias.Name)
			}
			f.state.aliases[alias.Name] = fingerprint
		}
		return map[string]string{"fingerprint": fingerprint, "size": "1048576"}, nil
	}}
}
