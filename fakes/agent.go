package fakes

import "sync"

// UUIDs for tests that need one and do not care which.
const (
	ControllerUUID = "a1e5c3f2-7d4b-4c68-9f10-3b2d6e8a7c51"
	ModelUUID      = "5d0f8b6e-42c7-4a19-8e3d-9b7a1c6f2e04"
)

// Agent is the configuration of a host agent, as the operator provisioner
// reads it. Every value can be changed at any time, by many goroutines.
type Agent struct {
	mu                                      sync.Mutex
	dataDir, logDir, controllerUUID, caCert string
}

// NewAgent returns an agent with the data directory /var/lib/juju, the log
// directory /var/log/juju, the controller [ControllerUUID] and the CA
// certificate given, in PEM: see [Controller.CACert].
func NewAgent(caCert string) *Agent {
	return &Agent{
		dataDir:        "/var/lib/juju",
		logDir:         "/var/log/juju",
		controllerUUID: ControllerUUID,
		caCert:         caCert,
	}
}

// DataDir is the agent's data directory.
func (a *Agent) DataDir() string { return a.get(&a.dataDir) }

// LogDir is the directory for operators' logs.
func (a *Agent) LogDir() string { return a.get(&a.logDir) }

// ControllerUUID is the controller's UUID.
func (a *Agent) ControllerUUID() string { return a.get(&a.controllerUUID) }

// CACert is the certificate of the controller's CA in PEM.
func (a *Agent) CACert() string { return a.get(&a.caCert) }

// SetDataDir changes what DataDir returns.
func (a *Agent) SetDataDir(dir string) { a.set(&a.dataDir, dir) }

// SetLogDir changes what LogDir returns.
func (a *Agent) SetLogDir(dir string) { a.set(&a.logDir, dir) }

// SetControllerUUID changes what ControllerUUID returns.
func (a *Agent) SetControllerUUID(uuid string) { a.set(&a.controllerUUID, uuid) }

// SetCACert changes what CACert returns.
func (a *Agent) SetCACert(pem string) { a.set(&a.caCert, pem) }

func (a *Agent) get(field *string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return *field
}

func (a *Agent) set(field *string, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*field = value
}
