// Package operatorcmd is the example's operator: what runs as
// "agent operator --dir DIR --application NAME".
//
// A real operator runs an application's charm. This one does what every
// operator does first: it reads its files, proves itself to the controller, and
// says that it is active, serving TLS on a loopback port with the certificate
// that it was given.
//
// # Its files
//
// All are in the operator's own directory; see the package operator/process.
//
//   - agent.conf is the operator's own and has its password.
//   - template-agent.conf is what the agent would have in agent.conf now. The
//     controller's addresses and CA are taken from it, since they may have
//     changed; its password is the one to use if the own one is refused, which
//     happens when the template was lost and made anew.
//   - operator.yaml has its certificate and key.
//
// They are read once: the agent restarts an operator whose configuration
// changed.
//
// # Connection
//
// The addresses are tried in turn, with a back-off, for ever. The controller
// must show a certificate of the CA for the name api.ServerName, or it gets to
// see no password. The loss of a session means a new log-in. None of this needs
// the agent that started the operator to be there.
package operatorcmd
