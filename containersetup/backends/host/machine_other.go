//go:build !unix

package host

import (
	"context"
	"io/fs"
	"runtime"

	"github.com/juju/errors"
)

// New returns a host that answers errors.NotSupported to everything: there are no
// containers on this system.
func New(Config) Host { return machine{} }

type machine struct{}

func unsupported() error { return errors.NotSupportedf("a host for containers on %s", runtime.GOOS) }

func (machine) Run(context.Context, Command) (Output, error) { return Output{}, unsupported() }

func (machine) ReadFile(context.Context, string) ([]byte, error) { return nil, unsupported() }

func (machine) WriteFile(context.Context, string, []byte, fs.FileMode) error { return unsupported() }

func (machine) Remove(context.Context, string) error { return unsupported() }

func (machine) Glob(context.Context, string) ([]string, error) { return nil, unsupported() }

func (machine) LockHolder(context.Context, string) (*Process, error) { return nil, unsupported() }
