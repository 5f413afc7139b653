package host

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"
)

// PackageManager installs what belongs to the operating system.
type PackageManager interface {
	// Name is what people call it, such as "apt".
	Name() string
	// Version returns that of an installed package, or errors.NotFound.
	Version(ctx context.Context, name string) (string, error)
	// List returns the names of all packages that are there, sorted; also of
	// those whose installation was cut short. An installation whose end nobody
	// saw added what is in the list then and was not in it before.
	List(ctx context.Context) ([]string, error)
	// Install installs packages that are missing, with what they need, and
	// returns what was added, sorted. It asks no questions, removes nothing, and
	// waits for whoever has the package manager's lock as long as ctx lasts; then
	// the error is errors.Timeout and names who. What was added before it failed
	// is returned, too. A snap's bases are not told, since snapd shares them and
	// minds them itself. A name that is none is errors.NotValid.
	Install(ctx context.Context, packages ...Package) (added []string, err error)
	// Remove takes packages away, with their configuration and data. One that is
	// not there is success; one that another package has come to need stays, and
	// the error names it. It waits as Install does.
	Remove(ctx context.Context, names ...string) error
}

// Package is something to install.
type Package struct {
	Name string
	// Channel is which of its versions, for a package manager that has
	// channels; its default is used if empty.
	Channel string
}

// installTimeout is for how long an installation may run once it has begun: a slow
// mirror takes minutes.
const installTimeout = 30 * time.Minute

// lowercase is what names of packages are made of, but for punctuation.
const lowercase = "abcdefghijklmnopqrstuvwxyz0123456789"

// lockPoll is how often a held lock is looked at.
const lockPoll = time.Second

// DebianPackages returns apt, which Ubuntu has beside snap, for what no snap has. It is
// errors.NotSupported where there is none.
func DebianPackages(ctx context.Context, h Host, clk clock.Clock) (PackageManager, error) {
	packages, err := Packages(ctx, h, clk)
	if _, snaps := packages.(snap); snaps {
		return apt{h, clk}, nil
	}
	return packages, err
}

// Packages returns the package manager of the host: snap on Ubuntu, apt on what comes
// from Debian, errors.NotSupported elsewhere.
func Packages(ctx context.Context, h Host, clk clock.Clock) (PackageManager, error) {
	if clk == nil {
		return nil, errors.NotValidf("nil Clock")
	}
	id, like, err := system(ctx, h)
	switch {
	case err != nil:
		return nil, err
	case id == "ubuntu":
		return snap{h, clk}, nil
	case id == "debian", slices.Contains(like, "debian"):
		return apt{h, clk}, nil
	}
	return nil, errors.NotSupportedf("installing packages on %q (want Debian or Ubuntu)", id)
}

// system returns what os-release calls the host, and what it resembles.
func system(ctx context.Context, h Files) (id string, like []string, err error) {
	for _, name := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		data, err := h.ReadFile(ctx, name)
		if errors.Is(err, errors.NotFound) {
			continue
		}
		if err != nil {
			return "", nil, errors.Trace(err)
		}
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			value = strings.Trim(value, `"'`)
			switch key {
			case "ID":
				id = value
			case "ID_LIKE":
				like = strings.Fields(value)
			}
		}
		return id, like, nil
	}
	return "", nil, errors.NotSupportedf("installing packages on a system without os-release")
}
