package lxd

import (
	"context"

	"github.com/juju/errors"
)

// Probe tells whether there is a daemon that this process may use, and changes nothing. It
// is errors.NotYetAvailable when none answers, errors.Forbidden when this process has no
// rights, and errors.NotSupported when LXD is too old. It is for agents that use LXD where
// it is: Initialise installs it.
func (i *Initialiser) Probe(ctx context.Context) error {
	client, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	server, err := client.Server(ctx)
	if err != nil {
		return err
	}
	if !server.Trusted {
		return forbidden()
	}
	o := observed{answers: true, version: server.Version, extensions: map[string]bool{}}
	for _, extension := range server.APIExtensions {
		o.extensions[extension] = true
	}
	return o.tooOld()
}

// forbidden is the error of a process that the daemon does not trust.
func forbidden() error {
	return errors.Forbiddenf("LXD by this process: it has to be root, or of the group lxd: that")
}

// tooOld is errors.NotSupported for a daemon that lacks something.
func (o observed) tooOld() error {
	for _, extension := range required() {
		if !o.extensions[extension] {
			return errors.NotSupportedf("LXD %s, which has no %q (want 5.0 or later),", o.version, extension)
		}
	}
	return nil
}
