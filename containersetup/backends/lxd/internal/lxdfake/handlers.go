package lxdfake

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
)

func (f *Fake) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /1.0":                          f.getServer,
		"PATCH /1.0":                        f.patchServer,
		"GET /1.0/storage-pools":            f.getPools,
		"GET /1.0/storage-pools/{name}":     f.getPool,
		"POST /1.0/storage-pools":           f.postPool,
		"DELETE /1.0/storage-pools/{name}":  f.deletePool,
		"GET /1.0/networks":                 f.getNetworks,
		"GET /1.0/networks/{name}":          f.getNetwork,
		"POST /1.0/networks":                f.postNetwork,
		"DELETE /1.0/networks/{name}":       f.deleteNetwork,
		"GET /1.0/operations":               func(*http.Request, []byte) reply { return reply{data: f.listOperations()} },
		"GET /1.0/profiles/{name}":          f.getProfile,
		"PUT /1.0/profiles/{name}":          f.putProfile,
		"GET /1.0/images/aliases/{name...}": f.getAlias,
		"GET /1.0/images/{name}":            f.getImage,
		"DELETE /1.0/images/{name}":         f.deleteImage,
		"POST /1.0/images":                  f.postImage,
		"GET /1.0/instances":                f.getInstances,
		"GET /1.0/instances/{name}":         f.getInstance,
		"GET /1.0/instances/{name}/state":   f.getInstanceState,
		"POST /1.0/instances":               f.postInstance,
		"PUT /1.0/instances/{name}":         f.putInstance,
		"PATCH /1.0/instances/{name}":       f.patchInstance,
		"PUT /1.0/instances/{name}/state":   f.putInstanceState,
		"DELETE /1.0/instances/{name}":      f.deleteInstance,
	} {
		f.handle(mux, pattern, h)
	}
	return mux
}

func (f *Fake) getServer(*http.Request, []byte) reply {
	return reply{
		etag: f.state.config,
		data: map[string]any{
			"api_extensions": f.state.extensions, "api_status": "stable", "api_version": "1.0", "auth": "trusted", "public": false,
			"config": f.state.config,
			"environment": map[string]any{
				"server": "lxd", "server_version": "5.0.2", "architectures": []string{architecture, "i686"},
				"firewall": "nftables", "driver": "lxc", "server_clustered": false,
				"storage_supported_drivers": []any{
					map[string]any{"Name": "dir", "Version": "1", "Remote": false},
					map[string]any{"Name": "btrfs", "Version": "6.2", "Remote": false},
				},
			},
		},
	}
}

// defaults are the daemon's keys, as far as it knows them here, with the values that
// it does not show.
func defaults() map[string]string {
	return map[string]string{
		"core.https_address": "", "core.proxy_http": "", "core.proxy_https": "", "core.proxy_ignore_hosts": "",
		"images.auto_update_cached": "true", "images.auto_update_interval": "6",
		"images.compression_algorithm": "gzip", "images.default_architecture": "", "images.remote_cache_expiry": "10",
	}
}

func (f *Fake) patchServer(_ *http.Request, body []byte) reply {
	var put struct{ Config map[string]string }
	if bad, ok := parse(body, &put); !ok {
		return bad
	}
	known := defaults()
	for _, key := range names(put.Config) {
		_, ok := known[key]
		value := put.Config[key]
		if !ok && !strings.HasPrefix(key, "user.") {
			return refuse(http.StatusBadRequest, "cannot set '%s' to '%s': unknown key", key, value)
		}
		if strings.HasSuffix(key, "_interval") || strings.HasSuffix(key, "_expiry") {
			if strings.Trim(value, "0123456789") != "" {
				return refuse(http.StatusBadRequest, "cannot set '%s' to '%s': invalid integer", key, value)
			}
		}
	}
	for key, value := range put.Config {
		if value == "" || value == known[key] {
			delete(f.state.config, key)
		} else {
			f.state.config[key] = value
		}
	}
	return reply{data: struct{}{}}
}

func (f *Fake) poolJSON(name string) map[string]any {
	p := f.state.pools[name]
	return map[string]any{
		"name": name, "driver": p.driver, "description": p.description, "config": p.config,
		"used_by": f.state.usesPool(name), "status": "Created", "locations": []string{"none"},
	}
}

func (f *Fake) getPools(*http.Request, []byte) reply {
	all := []any{}
	for _, name := range names(f.state.pools) {
		all = append(all, f.poolJSON(name))
	}
	return reply{data: all}
}

func (f *Fake) getPool(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	p := f.state.pools[name]
	if p == nil {
		return refuse(http.StatusNotFound, "Storage pool not found")
	}
	return reply{data: f.poolJSON(name), etag: []any{name, p.driver, p.config}}
}

func (f *Fake) postPool(_ *http.Request, body []byte) reply {
	var post struct {
		Name, Driver, Description string
		Config                    map[string]string
	}
	if bad, ok := parse(body, &post); !ok {
		return bad
	}
	switch {
	case post.Name == "":
		return refuse(http.StatusBadRequest, "No name provided")
	case strings.Contains(post.Name, "/"):
		return refuse(http.StatusBadRequest, "Storage pool names may not contain slashes")
	case post.Driver == "":
		return refuse(http.StatusBadRequest, "No driver provided")
	case f.state.pools[post.Name] != nil:
		return refuse(http.StatusConflict, "The storage pool already exists: The record already exists")
	case post.Driver != "dir" && post.Driver != "btrfs":
		return refuse(http.StatusInternalServerError, "Unknown driver")
	}
	for _, key := range names(post.Config) {
		switch key {
		case "source", "size", "rsync.bwlimit", "rsync.compression", "volatile.initial_source":
		default:
			if !strings.HasPrefix(key, "volume.") && !strings.HasPrefix(key, "user.") {
				return refuse(http.StatusInternalServerError, "Invalid option %q", key)
			}
		}
	}
	config := clone(post.Config)
	if config["source"] == "" {
		config["source"] = "/var/lib/lxd/storage-pools/" + post.Name
	}
	f.state.pools[post.Name] = &poolState{driver: post.Driver, description: post.Description, config: config}
	return reply{created: true}
}

func (f *Fake) deletePool(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	switch {
	case f.state.pools[name] == nil:
		return refuse(http.StatusNotFound, "Storage pool not found")
	case len(f.state.usesPool(name)) > 0:
		return refuse(http.StatusBadRequest, "The storage pool is currently in use")
	}
	delete(f.state.pools, name)
	return reply{data: struct{}{}}
}

func (f *Fake) networkJSON(name string) map[string]any {
	n := f.state.networks[name]
	data := map[string]any{
		"name": name, "type": n.kind, "managed": n.managed, "description": n.description, "config": clone(n.config),
		"used_by": f.state.usesNetwork(name), "status": "", "locations": nil,
	}
	if n.managed {
		data["status"], data["locations"] = "Created", []string{"none"}
	}
	return data
}

func (f *Fake) getNetworks(*http.Request, []byte) reply {
	all := []any{}
	for _, name := range names(f.state.networks) {
		all = append(all, f.networkJSON(name))
	}
	return reply{data: all}
}

func (f *Fake) getNetwork(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	n := f.state.networks[name]
	if n == nil {
		return refuse(http.StatusNotFound, "Network not found")
	}
	return reply{data: f.networkJSON(name), etag: []any{name, n.managed, n.kind, n.description, n.config}}
}

func (f *Fake) postNetwork(_ *http.Request, body []byte) reply {
	var post struct {
		Name, Type, Description string
		Config                  map[string]string
	}
	if bad, ok := parse(body, &post); !ok {
		return bad
	}
	there := f.state.networks[post.Name]
	switch {
	case post.Name == "":
		return refuse(http.StatusBadRequest, "Name must be provided")
	case len(post.Name) > 15:
		return refuse(http.StatusBadRequest, "Network interface is too long (maximum 15 characters)")
	case there != nil && there.managed:
		return refuse(http.StatusBadRequest, "The network already exists")
	case there != nil:
		return refuse(http.StatusInternalServerError, "Network interface %q already exists", post.Name)
	}
	for _, key := range names(post.Config) {
		section, _, _ := strings.Cut(key, ".")
		switch section {
		case "ipv4", "ipv6", "bridge", "dns", "raw", "user", "security", "fan", "maas", "tunnel", "bgp", "volatile":
		default:
			return refuse(http.StatusInternalServerError, "Invalid option for network %q option %q", post.Name, key)
		}
		if value := post.Config[key]; strings.HasSuffix(key, ".address") && strings.HasPrefix(section, "ipv") &&
			value != "auto" && value != "none" && !strings.Contains(value, "/") {
			return refuse(http.StatusInternalServerError, "Invalid value for network %q option %q: invalid CIDR address: %s", post.Name, key, value)
		}
	}
	config := clone(post.Config)
	n := f.state.next()
	for family, address := range map[string]string{"ipv4": fmt.Sprintf("10.201.%d.1/24", n), "ipv6": fmt.Sprintf("fd42:1:2:%x::1/64", n)} {
		if have := config[family+".address"]; have == "" || have == "auto" {
			config[family+".address"] = address
			if config[family+".nat"] == "" {
				config[family+".nat"] = "true"
			}
		}
	}
	if post.Type == "" {
		post.Type = "bridge"
	}
	f.state.networks[post.Name] = &networkState{kind: post.Type, managed: true, description: post.Description, config: config}
	return reply{created: true}
}

func (f *Fake) deleteNetwork(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	n := f.state.networks[name]
	switch {
	case n == nil || !n.managed:
		return refuse(http.StatusNotFound, "Failed loading network: Network not found")
	case len(f.state.usesNetwork(name)) > 0:
		return refuse(http.StatusBadRequest, "The network is currently in use")
	}
	delete(f.state.networks, name)
	return reply{data: struct{}{}}
}

func (p *profileState) etag() any { return []any{p.config, p.description, p.devices} }

func (f *Fake) getProfile(r *http.Request, _ []byte) reply {
	name := r.PathValue("name")
	p := f.state.profiles[name]
	if p == nil {
		return refuse(http.StatusNotFound, "Fetch profile: Profile not found")
	}
	return reply{etag: p.etag(), data: map[string]any{
		"name": name, "description": p.description, "config": p.config, "devices": p.devices,
		"used_by": f.state.usesProfile(name),
	}}
}

func (f *Fake) putProfile(r *http.Request, body []byte) reply {
	name := r.PathValue("name")
	p := f.state.profiles[name]
	if p == nil {
		return refuse(http.StatusNotFound, "Failed to retrieve profile %q: Profile not found", name)
	}
	if refusal, bad := changed(r, p.etag()); bad {
		return refusal
	}
	var put struct {
		Description string
		Config      map[string]string
		Devices     api.Devices
	}
	if bad, ok := parse(body, &put); !ok {
		return bad
	}
	if err := checkConfig(put.Config); err != nil {
		return refuse(http.StatusInternalServerError, "%v", err)
	}
	if code, err := f.checkDevices(put.Devices); err != nil {
		return refuse(code, "%v", err)
	}
	// All that an instance has by profiles it must still have.
	before := *p
	p.description, p.config, p.devices = put.Description, clone(put.Config), cloneDevices(put.Devices)
	for _, path := range f.state.usesProfile(name) {
		_, devices := f.state.expand(f.state.instances[strings.TrimPrefix(path, "/1.0/instances/")])
		if !hasRoot(devices) {
			*p = before
			return refuse(http.StatusInternalServerError, "At least one instance relies on this profile's root disk device")
		}
	}
	return reply{data: struct{}{}}
}
