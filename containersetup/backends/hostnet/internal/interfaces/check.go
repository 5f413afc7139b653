package interfaces

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// check tells whether the device is under the bridge already, and refuses what
// cannot or must not be put there.
func (c *configuration) check(b Bridging) (done bool, err error) {
	if done, err := c.checkPorts(b); done || err != nil {
		return done, err
	}
	for _, s := range append(c.named(b.Bridge), c.aliases(b.Bridge)...) {
		return false, plan.Conflict(s.doc.name, s.header.number, "%q is there without device %q among its ports", s.name, b.Device)
	}
	if err := c.checkLogical(b); err != nil {
		return false, err
	}
	own := c.named(b.Device)
	if len(own) == 0 {
		return false, plan.Missing(b.Device)
	}
	for _, s := range own {
		if err := c.checkStanza(s, b); err != nil {
			return false, err
		}
	}
	for _, s := range stanzas(c.docs) {
		if s.inherits == b.Device {
			return false, plan.Unsupported(s.doc.name, s.header.number, "%s inherits the stanza of device %q", plan.Quote(s.name), b.Device)
		}
	}
	for _, s := range c.aliases(b.Device) {
		if len(renamed(s.name, b)) > maxName {
			return false, plan.Invalid(s.doc.name, s.header.number, "%s would be %q (want %d bytes at most)", plan.Quote(s.name), renamed(s.name, b), maxName)
		}
	}
	return false, nil
}

// maxName is the kernel's limit, for aliases too.
const maxName = 15

// checkPorts looks for the device among those that others are made of.
func (c *configuration) checkPorts(b Bridging) (done bool, err error) {
	for _, s := range stanzas(c.docs) {
		for _, l := range s.options() {
			switch key := l.key(); {
			case key == "bridge-ports" && ports(l.words[1:], b.Device):
				if s.name == b.Bridge {
					done = true
					continue
				}
				return false, plan.Conflict(s.doc.name, l.number, "device %q is one of the ports of %s", b.Device, plan.Quote(s.name))
			case (key == "bond-slaves" || key == "slaves" || key == "ovs-ports" || key == "ovs-bonds") && slices.Contains(l.words[1:], b.Device):
				return false, plan.Conflict(s.doc.name, l.number, "device %q is one of the %s of %s", b.Device, l.words[0], plan.Quote(s.name))
			case (key == "bond-master" || key == "master") && s.name == b.Device && l.rest != "none":
				return false, plan.Conflict(s.doc.name, l.number, "device %q belongs to the bond %s", b.Device, plan.Quote(l.rest))
			}
		}
	}
	return done, nil
}

// ports tells whether a device is among what bridge_ports names, by the rules of
// bridge-utils: names, "all", or regular expressions after "regex".
func ports(words []string, device string) bool {
	expressions := false
	for _, w := range words {
		switch {
		case w == "all":
			for _, e := range []string{"eth.*", "em.*", "en.*", "p[0-9].*"} {
				if expression(e, device) {
					return true
				}
			}
			expressions = false
		case w == "regex":
			expressions = true
		case w == "noregex":
			expressions = false
		case w == device, expressions && expression(w, device):
			return true
		}
	}
	return false
}

func expression(e, device string) bool {
	re, err := regexp.Compile("^(?:" + e + ")$")
	return err == nil && re.MatchString(device)
}

// checkLogical refuses what has a script or a pattern decide which stanza is the
// device's.
func (c *configuration) checkLogical(b Bridging) error {
	for _, d := range c.docs {
		for _, l := range d.lines {
			if l.kind != header || l.words[0] != "mapping" {
				continue
			}
			for _, pattern := range l.words[1:] {
				if glob(pattern, b.Device) || glob(pattern, b.Bridge) {
					return plan.Unsupported(d.name, l.number, "mapping %s holds for device %q or its bridge", plan.Quote(pattern), b.Device)
				}
			}
		}
	}
	return singles(c.docs, func(d *document, l *line) error {
		for _, word := range l.words[1:] {
			physical, logical, renames := strings.Cut(word, "=")
			switch {
			case l.words[0] == "no-scripts":
				if glob(strings.TrimPrefix(word, "/"), b.Bridge) {
					return plan.Unsupported(d.name, l.number, "no-scripts %s holds for %q, which a script would have to make", plan.Quote(word), b.Bridge)
				}
			case l.words[0] == "rename":
			case renames && logical != b.Device && (physical == b.Device || matches(word, b)):
				return plan.Unsupported(d.name, l.number, "device %q is brought up as %s", b.Device, plan.Quote(logical))
			}
		}
		return nil
	})
}

// checkStanza refuses what cannot be a port.
func (c *configuration) checkStanza(s stanza, b Bridging) error {
	at := func(line int) (string, int) { return s.doc.name, line }
	for _, l := range s.options() {
		switch key := l.key(); {
		case key == "bridge-ports":
			return plan.Invalid(s.doc.name, l.number, "device %q is a bridge itself", b.Device)
		case strings.HasPrefix(key, "ovs-"):
			return plan.Unsupported(s.doc.name, l.number, "device %q belongs to Open vSwitch", b.Device)
		}
	}
	file, line := at(s.header.number)
	family, method := c.method(s)
	switch family {
	case "inet", "inet6":
	case "":
		return plan.Invalid(file, line, "device %q has no family (want one, or a stanza to inherit it from)", b.Device)
	default:
		return plan.Unsupported(file, line, "device %q has family %s (want inet or inet6)", b.Device, plan.Quote(family))
	}
	switch method {
	case "static", "dhcp", "manual", "auto", "bootp", "ipv4ll":
		return nil
	case "":
		return plan.Invalid(file, line, "device %q has no method", b.Device)
	case "loopback":
		return plan.Invalid(file, line, "device %q is the loopback device", b.Device)
	}
	return plan.Unsupported(file, line, "device %q has method %s (want static, dhcp, manual, auto, bootp or ipv4ll)", b.Device, plan.Quote(method))
}

// vlanName is a name that is one of a VLAN to ifupdown.
var vlanName = regexp.MustCompile(`^(.+)\.[0-9]+$`)

// checkName refuses a bridge that ifupdown would make as a VLAN of an interface
// that is there. Without that interface, the name does no harm.
func (c *configuration) checkName(bridge string) error {
	m := vlanName.FindStringSubmatch(bridge)
	if m == nil {
		return nil
	}
	for _, s := range c.named(m[1]) {
		return plan.Invalid(s.doc.name, s.header.number, "%q would be a VLAN of %q (want another name for the bridge)", bridge, m[1])
	}
	return nil
}
