package api

import (
	"context"
	"net/http"
	"time"

	"github.com/juju/errors"
)

// Instance is a container.
type Instance struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Type is "container", or "virtual-machine".
	Type string `json:"type"`
	// Status is LXD's word, such as "Running"; StatusCode is what stands for it,
	// such as [StatusRunning].
	Status     string `json:"status"`
	StatusCode int    `json:"status_code"`
	// Architecture is in LXD's words: "x86_64".
	Architecture string `json:"architecture"`
	// Config and Devices are its own; the expanded ones have those of its
	// profiles, too.
	Config          map[string]string `json:"config"`
	ExpandedConfig  map[string]string `json:"expanded_config"`
	Devices         Devices           `json:"devices"`
	ExpandedDevices Devices           `json:"expanded_devices"`
	Profiles        []string          `json:"profiles"`
	// An ephemeral one is deleted when it stops.
	Ephemeral bool      `json:"ephemeral"`
	Stateful  bool      `json:"stateful"`
	CreatedAt time.Time `json:"created_at"`
}

// Running tells whether it is up.
func (i Instance) Running() bool { return i.StatusCode == StatusRunning }

// CreateInstance is what an instance is made from.
type CreateInstance struct {
	Name        string
	Description string
	// Type is "container" by default.
	Type string
	// Architecture is the image's by default.
	Architecture string
	// Fingerprint or Alias is the image, which is in LXD's own store.
	Fingerprint, Alias string
	// Profiles are those that it has. Nil is the default one; none at all is a
	// slice without elements.
	Profiles  []string
	Config    map[string]string
	Devices   Devices
	Ephemeral bool
}

// Validate returns errors.NotValid, naming the field.
func (p CreateInstance) Validate() error {
	if _, err := segment("Name", p.Name); err != nil {
		return err // LXD would make up a name of its own for an empty one
	}
	if (p.Fingerprint == "") == (p.Alias == "") {
		return errors.NotValidf("instance %q: not exactly one of Fingerprint and Alias", p.Name)
	}
	return nil
}

// InstanceState is how an instance fares.
type InstanceState struct {
	Status     string `json:"status"`
	StatusCode int    `json:"status_code"`
	// PID is that of its first process on the host, or 0.
	PID    int64 `json:"pid"`
	Memory struct {
		// Usage is in bytes, and so is Total: its limit, or the machine's
		// memory; 0 where LXD does not tell.
		Usage int64 `json:"usage"`
		Total int64 `json:"total"`
	} `json:"memory"`
	// Network has its interfaces by their names inside. It is empty if the
	// instance does not run.
	Network map[string]InstanceNetwork `json:"network"`
}

// InstanceNetwork is an interface of an instance.
type InstanceNetwork struct {
	HWAddr string `json:"hwaddr"`
	MTU    int    `json:"mtu"`
	// HostName is the other end's name on the host.
	HostName string `json:"host_name"`
	// State is "up" or "down"; Type is "broadcast", "loopback", ...
	State     string            `json:"state"`
	Type      string            `json:"type"`
	Addresses []InstanceAddress `json:"addresses"`
}

// InstanceAddress is an address of an instance.
type InstanceAddress struct {
	// Family is "inet" or "inet6".
	Family string `json:"family"`
	// Address has no prefix length; that is in Netmask: "24".
	Address string `json:"address"`
	Netmask string `json:"netmask"`
	// Scope is "global", "link" or "local".
	Scope string `json:"scope"`
}

// Instances returns all of them, of all types.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	var instances []Instance
	_, err := c.get(ctx, request{path: "/1.0/instances", query: everything(), limit: maxList}, &instances)
	return instances, errors.Annotate(err, "listing instances")
}

// Instance returns one and its ETag, or errors.NotFound.
func (c *Client) Instance(ctx context.Context, name string) (Instance, string, error) {
	path, err := instancePath(name)
	if err != nil {
		return Instance{}, "", err
	}
	var instance Instance
	etag, err := c.get(ctx, request{path: path}, &instance)
	return instance, etag, errors.Annotatef(err, "instance %q", name)
}

// InstanceState returns how one fares, or errors.NotFound.
func (c *Client) InstanceState(ctx context.Context, name string) (InstanceState, error) {
	path, err := instancePath(name)
	if err != nil {
		return InstanceState{}, err
	}
	var state InstanceState
	_, err = c.get(ctx, request{path: path + "/state"}, &state)
	return state, errors.Annotatef(err, "state of instance %q", name)
}

// CreateInstance makes an instance and waits until it is there, stopped. It
// returns errors.AlreadyExists when there is one of that name, half made or not,
// and errors.NotFound when there is no image of the alias. LXD has no code for a
// fingerprint that it does not know: ask [Client.Image] first.
func (c *Client) CreateInstance(ctx context.Context, params CreateInstance) error {
	if err := params.Validate(); err != nil {
		return err
	}
	source := map[string]string{"type": "image"}
	if params.Alias != "" {
		source["alias"] = params.Alias
	} else {
		source["fingerprint"] = params.Fingerprint
	}
	body := struct {
		Name         string            `json:"name"`
		Description  string            `json:"description"`
		Type         string            `json:"type"`
		Architecture string            `json:"architecture,omitempty"`
		Source       map[string]string `json:"source"`
		Profiles     []string          `json:"profiles"`
		Config       map[string]string `json:"config"`
		Devices      Devices           `json:"devices"`
		Ephemeral    bool              `json:"ephemeral"`
	}{
		params.Name, params.Description, params.Type, params.Architecture, source,
		params.Profiles, params.Config, params.Devices, params.Ephemeral,
	}
	if body.Type == "" {
		body.Type = "container"
	}
	_, err := c.change(ctx, request{
		method:  http.MethodPost,
		path:    "/1.0/instances",
		body:    body,
		configs: []map[string]string{params.Config},
	})
	if refused(err) && !errors.Is(err, errors.AlreadyExists) {
		// It is an operation that fails then, and they all have one code.
		if _, _, look := c.Instance(ctx, params.Name); look == nil {
			err = errors.WithType(err, errors.AlreadyExists)
		}
	}
	return errors.Annotatef(err, "creating instance %q", params.Name)
}

// PutInstance replaces what can be set of an instance: description,
// architecture, configuration, devices, profiles, and whether it is ephemeral.
// It is to be made from what [Client.Instance] returned, since it has LXD's own
// keys, too. It returns [ErrChanged] when the ETag is not empty and not the
// instance's. Beware: the ETag changes also when LXD changes keys of its own, as
// it does when it starts or stops an instance.
func (c *Client) PutInstance(ctx context.Context, instance Instance, etag string) error {
	path, err := instancePath(instance.Name)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{
		method: http.MethodPut,
		path:   path,
		body: map[string]any{
			"description":  instance.Description,
			"architecture": instance.Architecture,
			"config":       instance.Config,
			"devices":      instance.Devices,
			"profiles":     instance.Profiles,
			"ephemeral":    instance.Ephemeral,
			"stateful":     instance.Stateful,
		},
		etag:    etag,
		configs: []map[string]string{instance.Config},
	})
	return errors.Annotatef(err, "changing instance %q", instance.Name)
}

// InstancePatch is what is to be changed of an instance. What is nil stays.
type InstancePatch struct {
	// Config has the keys that are to be set; an empty value takes a key away.
	Config map[string]string
	// Devices are to be added, or replaced as wholes.
	Devices Devices
	// Profiles are all that it is to have.
	Profiles []string
}

// PatchInstance changes a part of an instance. It returns [ErrChanged] as
// PutInstance does, and errors.NotFound when there is none.
func (c *Client) PatchInstance(ctx context.Context, name string, patch InstancePatch, etag string) error {
	path, err := instancePath(name)
	if err != nil {
		return err
	}
	now, _, err := c.Instance(ctx, name)
	if err != nil {
		return err
	}
	// LXD 5.0 forgets the description that it is not told again.
	body := map[string]any{"description": now.Description}
	if patch.Config != nil {
		body["config"] = patch.Config
	}
	if patch.Devices != nil {
		body["devices"] = patch.Devices
	}
	if patch.Profiles != nil {
		body["profiles"] = patch.Profiles
	}
	_, err = c.change(ctx, request{
		method:  http.MethodPatch,
		path:    path,
		body:    body,
		etag:    etag,
		configs: []map[string]string{patch.Config},
	})
	err = ofAnother(err)
	return errors.Annotatef(err, "changing instance %q", name)
}

// StartInstance starts one and waits until it runs. One that runs is success. It
// returns errors.NotFound when there is none.
func (c *Client) StartInstance(ctx context.Context, name string) error {
	err := c.setState(ctx, name, c.config.OperationTimeout, StatusRunning, map[string]any{"action": "start", "timeout": -1})
	return errors.Annotatef(err, "starting instance %q", name)
}

// StopInstance asks one to shut down and waits until it has stopped; LXD gives
// up after the timeout, which is rounded up to whole seconds, and then the error
// has no kind. With force, it is stopped at once and not asked. One that does not
// run is success. It returns errors.NotFound when there is none.
func (c *Client) StopInstance(ctx context.Context, name string, timeout time.Duration, force bool) error {
	if timeout < 0 {
		return errors.NotValidf("stopping instance %q: negative timeout", name)
	}
	seconds := max(1, int64((timeout+time.Second-1)/time.Second))
	// LXD's patience must not outlast ours.
	limit := max(c.config.OperationTimeout, timeout+c.config.CallTimeout)
	err := c.setState(ctx, name, limit, StatusStopped, map[string]any{"action": "stop", "timeout": seconds, "force": force})
	return errors.Annotatef(err, "stopping instance %q", name)
}

// setState brings an instance into a state. LXD refuses that for one that is in
// the state already, and does not tell so by the code: then it is looked at.
func (c *Client) setState(ctx context.Context, name string, limit time.Duration, want int, body map[string]any) error {
	path, err := instancePath(name)
	if err != nil {
		return err
	}
	_, err = c.changeWithin(ctx, limit, request{method: http.MethodPut, path: path + "/state", body: body})
	if refused(err) && !errors.Is(err, errors.NotFound) {
		if instance, _, look := c.Instance(ctx, name); look == nil && instance.StatusCode == want {
			return nil
		}
	}
	return err
}

// DeleteInstance removes one that is stopped and waits until it is gone. One that
// runs is errors.BadRequest; it returns errors.NotFound when there is none.
func (c *Client) DeleteInstance(ctx context.Context, name string) error {
	path, err := instancePath(name)
	if err != nil {
		return err
	}
	_, err = c.change(ctx, request{method: http.MethodDelete, path: path})
	return errors.Annotatef(err, "deleting instance %q", name)
}

func instancePath(name string) (string, error) {
	part, err := segment("instance", name)
	if err != nil {
		return "", err
	}
	return "/1.0/instances/" + part, nil
}
