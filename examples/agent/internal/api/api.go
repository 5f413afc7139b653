// Package api is what the example's operators and its controller say to each
// other, over HTTPS: a log-in, then a status every now and then.
//
// Both sides verify: the operator knows the controller by the CA certificate in
// its agent.conf and by [ServerName], the controller knows the operator by its
// password and from then on by a session.
package api

import "time"

const (
	// ServerName is the name in the controller's certificate, whatever the
	// address that it is reached by. It has dots, and so can be the name of
	// no application: no operator can pass for the controller.
	ServerName = "controller.sutler.internal"

	// LoginPath takes a POST of a [Login] and answers with a [Session], or
	// with 401.
	LoginPath = "/login"
	// StatusPath takes a POST of a [Status], with the session's token as
	// bearer. It answers 204, or 401 when the session is no longer known.
	StatusPath = "/status"

	// MaxBody is the greatest size of a request or answer, in bytes.
	MaxBody = 16 << 10
	// Heartbeat is how often an operator tells its status.
	Heartbeat = 2 * time.Second
)

// Login is what an operator says first.
type Login struct {
	// Tag is "application-" and the application's name.
	Tag string `json:"tag"`
	// Password is in the clear. A value of this type is made to be sent and
	// is not kept, printed or logged.
	Password string `json:"password"`
}

// Session is the answer to a [Login].
type Session struct {
	// Token is a secret as the password is.
	Token string `json:"token"`
}

// Status is how an operator says that it is doing.
type Status struct {
	// Status is "active", or "stopped" as the last one.
	Status string `json:"status"`
	// Address is where the operator serves, host:port.
	Address string `json:"address,omitempty"`
	// Names are those in the certificate that it serves with.
	Names []string `json:"names,omitempty"`
	// Fingerprint is the SHA-256 of that certificate, in hex.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Values of Status.Status.
const (
	Active  = "active"
	Stopped = "stopped"
)
