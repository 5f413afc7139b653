package kvm

// Daemon is what is used of libvirt.
type Daemon = daemon

// WithDaemon returns the config with connections made by with, which is given one that
// makes them as usual.
func WithDaemon(c Config, with func(Config, func(Config) (Daemon, error)) (Daemon, error)) Config {
	c.connect = func(c Config) (daemon, error) { return with(c, connect) }
	return c
}
