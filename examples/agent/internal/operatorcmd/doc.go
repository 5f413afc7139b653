// Package operatorcmd is the example's operator: what runs as
// "agent operator --dir DIR --application NAME".
//
// A real operator runs an application's charm. This one does what every
// operator does first: it reads its files, proves itself to the controller, and
// says that it is active, serving TLS with the certificate that it was given: on a
// loopback port, or, in a pod, on the port that the pod's probes and its Service
// look at. Whatever is asked there is answered with the application and its
// status.
//
// # Its files
//
// All are in the operator's own directory; see the packages operator/process and
// operator/kubernetes. In a pod the template and operator.yaml are mounted, and
// cannot be written.
//
//   - agent.conf is the operator's own and has its password. When there is none
//     it is made from the template, once: what is there is never overwritten.
//   - template-agent.conf is what the agent would have in agent.conf now. The
//     controller's addresses and CA are taken from it, since they may have
//     changed; its password is the one to use if the own one is refused, which
//     happens when the template was lost and made anew.
//   - operator.yaml has its certificate and key.
//
// They are read once: an operator whose configuration changed is restarted, or
// gets a new pod.
//
// # Connection
//
// The addresses are tried in turn, with a back-off, for ever. The controller
// must show a certificate of the CA for the name api.ServerName, or it gets to
// see no password. The loss of a session means a new log-in. None of this needs
// the agent that started the operator to be there.
package operatorcmd
