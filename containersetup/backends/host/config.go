package host

// Config is what [New] takes. Its zero value is this machine.
type Config struct {
	// Prefix stands before every command, as in "nsenter", "--net=/run/netns/x". It is a
	// program that becomes the command, and exits with 127 when there is no such one.
	// Files and locks are those that this process itself sees.
	Prefix []string
}
