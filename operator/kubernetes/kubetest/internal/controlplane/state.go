package controlplane

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"

	"github.com/juju/errors"
)

// State is what a running control plane's folder says of it.
type State struct {
	// Dir is the folder, an absolute path.
	Dir string
	// Bin is the folder with the programs that it was started from.
	Bin string
	// Tool is the program that is its fake node; empty without one.
	Tool string
	// Address and Port are where its API server listens; EtcdPort is etcd's, on
	// the loopback interface.
	Address        string
	Port, EtcdPort int
}

// Kubeconfig returns the path of the kubeconfig file of a user of the control
// plane: admin, controller-manager, scheduler, node or proxy.
func (s State) Kubeconfig(user string) string {
	return filepath.Join(s.Dir, user+".kubeconfig")
}

// AuditLog returns the path of the API server's audit log.
func (s State) AuditLog() string { return filepath.Join(s.Dir, "log", "audit.log") }

// Log returns the path of a program's log.
func (s State) Log(program string) string { return filepath.Join(s.Dir, "log", program+".log") }

// server returns the API server's address.
func (s State) server() string {
	return "https://" + s.Address + ":" + strconv.Itoa(s.Port)
}

// Root returns the folder that holds the state of the test bed's parts: what the
// environment's SUTLER_TESTBED_STATE says, by default one that is named after the
// user, in /tmp and not in a longer path, because unix sockets are put into it.
func Root() string {
	if dir := os.Getenv("SUTLER_TESTBED_STATE"); dir != "" {
		return dir
	}
	return "/tmp/sutler-testbed-" + strconv.Itoa(os.Getuid())
}

const stateFile = "state.json"

// load reads what the folder says. It is an errors.NotFound when there is no
// control plane, or one that has not come up.
func load(dir string) (State, error) {
	path := filepath.Join(dir, stateFile)
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return State{}, errors.NotFoundf("control plane in %s", dir)
	}
	if err != nil {
		return State{}, errors.Trace(err)
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return State{}, errors.Annotatef(err, "reading %s", path)
	}
	return state, nil
}

// save says that the control plane is up.
func (s State) save() error {
	data, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return errors.Trace(err)
	}
	path := filepath.Join(s.Dir, stateFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(os.Rename(path+".new", path))
}
