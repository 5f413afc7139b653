//go:build !linux

package controlplane

import (
	"context"

	"github.com/juju/errors"
)

// ControlPlane is never there: the programs run on Linux.
type ControlPlane struct{ State }

// Open is an errors.NotSupported.
func Open(string) (State, error) { return State{}, errors.Trace(unsupported()) }

// Lock is an errors.NotSupported.
func Lock(string) (func(), error) { return nil, errors.Trace(unsupported()) }

// Start is an errors.NotSupported.
func Start(context.Context, Config) (*ControlPlane, error) { return nil, errors.Trace(unsupported()) }

// Stop is an errors.NotSupported.
func Stop(string) error { return errors.Trace(unsupported()) }

// StartAPIServer is an errors.NotSupported.
func (*ControlPlane) StartAPIServer(context.Context) error { return errors.Trace(unsupported()) }

// StopAPIServer is an errors.NotSupported.
func (*ControlPlane) StopAPIServer() error { return errors.Trace(unsupported()) }

// FreezeAPIServer is an errors.NotSupported.
func (*ControlPlane) FreezeAPIServer(bool) error { return errors.Trace(unsupported()) }

// Stop is an errors.NotSupported.
func (*ControlPlane) Stop() error { return errors.Trace(unsupported()) }

func unsupported() error { return errors.NotSupportedf("control planes on anything but Linux") }
