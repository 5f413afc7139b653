// Package hostnet sees what a host's network looks like ([Observer]) and puts its devices
// under bridges ([Bridger]), so that containers can be on the networks that the host is
// on.
//
// # What is observed
//
// Every interface of the host, in the order of the kernel's numbers, with what
// facade.NetworkInterface has room for. Left out are the host's ends of what containers
// and virtual machines are connected by: a veth that is under a bridge for containers;
// one whose other end is in another network namespace and whose name begins with "veth",
// or which is under a bridge of which it is not the device; and taps. A veth of another
// name that is under no bridge stays: it is the card of a host that is itself a
// container.
//
// Bridges that serve containers are known by their names (lxdbr0, lxcbr0, virbr0,
// docker0 and more of their kinds, Docker's br-<12 digits>, and those that the config
// names). They are in the list without addresses, gateway and name servers: their
// addresses are the same on many hosts and lead to none of them, so they must never pass
// for the host's own.
//
// DNS is the same for every other interface that has an address beyond its link: the
// servers in /etc/resolv.conf, or, where those are on the host itself, the ones that
// systemd-resolved asks.
//
// # What is bridged
//
// A device gets under a bridge of its own, which has the device's MAC and MTU; addresses
// and routes are on the bridge afterwards. Never bridged are the loopback interface,
// bridges, members of bonds, ports of other bridges, what belongs to containers, and what
// speaks no Ethernet. A bridge that is there already is used only if it has no ports and
// no addresses. All devices are checked before any is touched.
//
// There are three ways, chosen for each device by what mentions it:
//
//   - netplan: its YAML is rewritten, then generated and applied.
//   - ifupdown: its stanzas are rewritten, also in files that others read in; the device
//     is taken down and the bridge brought up.
//   - the kernel alone, for what neither knows: the addresses with their flags and what is
//     left of their lifetimes, and the routes of all tables move in some milliseconds. It
//     does not outlive a reboot. A DHCP client that ran for the device does not know of
//     the bridge: the address stays until its lease ends. Settings under /proc/sys/net of
//     the device stay its own.
//
// # What is put back, and when
//
// The network is looked at before and after. Afterwards every address of the host and
// every default route has to be there, with its gateway and metric, on whatever
// interface; those from DHCP may take [BridgerConfig.VerifyTimeout]. Else, or when a step
// fails, or when the context ends, all is put back: files byte for byte, then the tools
// again, then the kernel's own state. The error says which step failed, and what could
// not be put back, if anything.
//
// Putting back has a context of its own: Bridge returns when it is done, which may be
// some time after its context has ended.
//
// # When the process dies
//
// Before the first change, what it takes to put all back is written to
// [BridgerConfig.StateDir]. If the process is killed, then
//
//   - with a [BridgerConfig.Watchdog], that puts all back at once. It is a process of its
//     own, which the host's program offers as a subcommand that calls [RunWatchdog]. It is
//     started, and waited for until it watches, before anything changes; and it also puts
//     back what a process that hangs has begun, once the time for the change is over. A
//     service manager that kills all processes of a service kills it, too, unless told
//     otherwise (systemd: KillMode=process) or unless it runs as a service of its own
//     (systemd-run).
//   - without one, the next process does, by [Bridger.Recover] or as the first thing in
//     [Bridger.Bridge].
//
// What cannot be put back is tried three times, and then only told of.
//
// # Firewalls
//
// [Bridger.Warnings] tells of firewalls of others that would cut off containers under a
// bridge. Nobody's rules are ever changed.
//
// # Undoing it
//
// The original of every configuration file, as it was before this package ever changed
// it, is in the state directory, under "originals", with its path's slashes as percent
// signs. Copied back and applied (netplan apply; or ifdown the bridge, ifup the device),
// all is as before.
//
// # Concurrency
//
// Everything may be called from many goroutines and processes. Of all that share a state
// directory one at a time changes the network; on top of that, callers hold the machine
// lock, since others change it, too.
//
// # Errors
//
// errors.NotValid and errors.NotFound name a device and what is against bridging it; also
// a configuration file and its line. errors.AlreadyExists and errors.NotSupported are
// about what a configuration file has: a bridge that is used otherwise, a device that
// somebody else manages. After any of these, nothing was changed. Errors are one line.
//
// # Secrets
//
// Configuration files may have passwords. What is kept of them is in files of mode 0600
// in directories of mode 0700, and never in a log or an error.
//
// # Testing
//
// The tests run in network namespaces of their own, as root, with a neighbour that is
// reached before and after; see internal/nettest.
package hostnet
