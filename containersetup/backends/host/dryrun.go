package host

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/juju/errors"
)

// DryRun returns a host that looks at another one and changes nothing on it. What would
// be changed is told, one line each, and taken for done: a file that was written reads
// so, a command that is not read-only succeeds and prints nothing. Contents of files are
// not told. The function tell is called by one goroutine at a time.
func DryRun(on Host, tell func(line string)) Host {
	d := &dryRun{Host: on, files: map[string][]byte{}}
	d.tell = func(line string) {
		d.telling.Lock()
		defer d.telling.Unlock()
		tell(line)
	}
	return d
}

type dryRun struct {
	Host
	tell func(string)

	telling sync.Mutex // is held during tell

	mu sync.Mutex
	// files are those that would have been written; nil is for removed.
	files map[string][]byte
}

func (d *dryRun) Run(ctx context.Context, cmd Command) (Output, error) {
	if err := cmd.Validate(); err != nil {
		return Output{}, err
	}
	if cmd.ReadOnly {
		return d.Host.Run(ctx, cmd)
	}
	d.tell("run " + cmd.String())
	return Output{}, nil
}

func (d *dryRun) ReadFile(ctx context.Context, name string) ([]byte, error) {
	d.mu.Lock()
	data, ok := d.files[filepath.Clean(name)]
	d.mu.Unlock()
	switch {
	case !ok:
		return d.Host.ReadFile(ctx, name)
	case data == nil:
		return nil, errors.NotFoundf("file %q", name)
	}
	return slices.Clone(data), nil
}

func (d *dryRun) WriteFile(_ context.Context, name string, data []byte, perm fs.FileMode) error {
	if err := absolute(name); err != nil {
		return err
	}
	d.tell(fmt.Sprintf("write %s (%d bytes, %#o)", name, len(data), perm))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[filepath.Clean(name)] = append([]byte{}, data...) // nil is for removed
	return nil
}

func (d *dryRun) Remove(ctx context.Context, name string) error {
	if err := absolute(name); err != nil {
		return err
	}
	if _, err := d.ReadFile(ctx, name); errors.Is(err, errors.NotFound) {
		return nil
	}
	d.tell("remove " + name)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[filepath.Clean(name)] = nil
	return nil
}

func (d *dryRun) Glob(ctx context.Context, pattern string) ([]string, error) {
	names, err := d.Host.Glob(ctx, pattern)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return overlay(names, d.files, pattern), nil
}
