package fakes

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/facade"
)

// Containers is part of facade.ContainerStates.
func (m *Machine) Containers(ctx context.Context, ids []string) ([]facade.ContainerResult, error) {
	return bulk(ctx, m, Call{Method: "Containers"}, ids, same,
		func(id string, c *machineContainer) facade.ContainerResult {
			return facade.ContainerResult{ID: id, Life: c.life, InstanceID: c.instance.InstanceID, Status: c.state}
		},
		func(id string, err error) facade.ContainerResult { return facade.ContainerResult{ID: id, Err: err} })
}

// ProvisioningInfo is part of facade.Containers.
func (m *Machine) ProvisioningInfo(ctx context.Context, ids []string) ([]facade.ContainerProvisioningResult, error) {
	return bulk(ctx, m, Call{Method: "ProvisioningInfo"}, ids, same,
		func(id string, c *machineContainer) facade.ContainerProvisioningResult {
			return facade.ContainerProvisioningResult{ID: id, Info: cloneContainerInfo(c.info)}
		},
		func(id string, err error) facade.ContainerProvisioningResult {
			return facade.ContainerProvisioningResult{ID: id, Err: err}
		})
}

// SetContainerStatus is part of facade.ContainerStates. Watchers are not told.
func (m *Machine) SetContainerStatus(ctx context.Context, statuses []facade.ContainerStatus) ([]error, error) {
	call := Call{Method: "SetContainerStatus", Args: []any{slices.Clone(statuses)}}
	return bulk(ctx, m, call, statuses, func(s facade.ContainerStatus) string { return s.ID },
		func(s facade.ContainerStatus, c *machineContainer) error {
			switch s.State {
			case facade.ContainerPending, facade.ContainerProvisioning, facade.ContainerRunning, facade.ContainerError:
			default:
				return errors.NotValidf("state %q of container %q", s.State, s.ID)
			}
			m.state.setStatus(c, s.State, s.Message)
			return nil
		}, failed)
}

// SetInstanceInfo is part of facade.Containers. It returns errors.NotValid for
// one without an instance or with another nonce than the container's, and
// errors.AlreadyExists where another instance is recorded. Watchers are not
// told.
func (m *Machine) SetInstanceInfo(ctx context.Context, infos []facade.InstanceInfo) ([]error, error) {
	infos = slices.Clone(infos)
	for i := range infos {
		infos[i].Interfaces = cloneInterfaces(infos[i].Interfaces)
	}
	call := Call{Method: "SetInstanceInfo", Args: []any{infos}}
	return bulk(ctx, m, call, infos, func(i facade.InstanceInfo) string { return i.ID },
		func(i facade.InstanceInfo, c *machineContainer) error {
			switch {
			case i.InstanceID == "":
				return errors.NotValidf("empty instance id of container %q", i.ID)
			case i.Nonce != c.info.Nonce:
				return errors.NotValidf("nonce of container %q", i.ID)
			case c.instance.InstanceID != "" && c.instance.InstanceID != i.InstanceID:
				return errors.AlreadyExistsf("instance %q of container %q", c.instance.InstanceID, i.ID)
			}
			if c.instance.InstanceID == "" {
				c.recordings++
			}
			c.instance = i
			c.instance.Interfaces = cloneInterfaces(i.Interfaces)
			return nil
		}, failed)
}

// MarkForRemoval is part of facade.Containers. It returns errors.NotFound for
// one that is gone already and errors.NotValid for one that is not dead.
func (m *Machine) MarkForRemoval(ctx context.Context, ids []string) ([]error, error) {
	return bulk(ctx, m, Call{Method: "MarkForRemoval"}, ids, same,
		func(id string, c *machineContainer) error {
			if c.life != facade.Dead {
				return errors.NotValidf("removal of container %q, which is %s,", id, c.life)
			}
			m.state.remove(id)
			return nil
		}, failed)
}

func same(id string) string { return id }

func failed[In any](_ In, err error) error { return err }

// bulk takes a call for several containers through the faults, and answers for
// each with the state locked.
func bulk[In, Out any](
	ctx context.Context, m *Machine, call Call, in []In, id func(In) string,
	answer func(In, *machineContainer) Out, fail func(In, error) Out,
) ([]Out, error) {
	call.Keys = make([]string, len(in))
	for i, item := range in {
		call.Keys[i] = id(item)
	}
	return run(ctx, m.faults, call, func(p plan) ([]Out, error) {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		results := make([]Out, len(in))
		for i, item := range in {
			if p.half() && i >= len(in)/2 {
				break
			}
			effect := p.items[i]
			if effect.acts() {
				if c, ok := m.state.containers[call.Keys[i]]; ok {
					results[i] = answer(item, c)
				} else {
					results[i] = fail(item, errors.NotFoundf("container %q", call.Keys[i]))
				}
			}
			if effect.Err != nil {
				results[i] = fail(item, effect.Err)
			}
			results[i] = altered(effect, results[i])
		}
		return results, nil
	})
}
