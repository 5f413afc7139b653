package controlplane

import (
	"net"

	"github.com/juju/errors"
)

// Config is what a control plane is started with. Dir and Bin are required.
type Config struct {
	// Dir is the folder for its state. It is made, and must not hold anything
	// else: it is removed when the control plane is stopped.
	Dir string
	// Bin is the folder with the programs.
	Bin string
	// Tool is the program whose command "fakenode" is the fake node; without it
	// there is no node.
	Tool string
	// Address is where the API server listens, 127.0.0.1 by default. With any
	// other, pods find it there.
	Address string
	// Port is the API server's; a free one by default.
	Port int
	// Detached has it outlive this process.
	Detached bool
}

// Validate returns an errors.NotValid that names the first field that is missing or
// impossible, or nil.
func (c Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.NotValidf("empty Dir")
	case c.Bin == "":
		return errors.NotValidf("empty Bin")
	case c.Address != "" && net.ParseIP(c.Address) == nil:
		return errors.NotValidf("Address %q", c.Address)
	case c.Port < 0 || c.Port > 65535:
		return errors.NotValidf("Port %d", c.Port)
	}
	return nil
}

// The programs, in the order in which they start.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	fakeNode          = "fakenode"
)

func programs() []string {
	return []string{etcd, apiServer, controllerManager, scheduler, fakeNode}
}

// The Services' addresses, and that of the API server among them.
const (
	serviceRange = "10.96.0.0/16"
	kubernetesIP = "10.96.0.1"
)
