package interfaces

import (
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// Bridging and File are the words of package plan.
type (
	// Bridging puts a device under a bridge.
	Bridging = plan.Bridging
	// File is one configuration file.
	File = plan.File
)

// Bridge returns the files that change, with their new contents. What is already
// so does not change: an empty result is success. Files are given in the order in
// which ifupdown reads them, as Follow returns them.
//
// errors.NotValid names the file, the line and the rule; errors.AlreadyExists is
// for a bridge or a device that is used otherwise; errors.NotFound names a device
// that no file mentions; errors.NotSupported is for what is left alone, as what a
// mapping script decides. Nothing is returned besides an error.
func Bridge(files []File, bridgings []Bridging) (changed []File, err error) {
	if err := plan.ValidateAll(bridgings); err != nil {
		return nil, errors.Trace(err)
	}
	if err := plan.ValidateFiles(files); err != nil {
		return nil, errors.Trace(err)
	}
	c := &configuration{}
	for _, f := range files {
		d, err := parse(f)
		if err != nil {
			return nil, err
		}
		c.docs = append(c.docs, d)
	}
	var made []string
	for _, b := range bridgings {
		done, err := c.check(b)
		if err != nil {
			return nil, err
		}
		if !done {
			c.bridge(b)
			made = append(made, b.Bridge)
		}
	}
	for _, bridge := range made {
		if err := c.checkName(bridge); err != nil {
			return nil, err
		}
	}
	for _, d := range c.docs {
		if d.changed {
			changed = append(changed, File{Name: d.name, Data: d.encode()})
		}
	}
	return changed, nil
}

// configuration is what the files say together.
type configuration struct {
	docs []*document
}

// named returns the iface stanzas of a name.
func (c *configuration) named(name string) []stanza {
	return slices.DeleteFunc(stanzas(c.docs), func(s stanza) bool { return s.name != name })
}

// aliases returns those of further addresses of a device, as eth0:1.
func (c *configuration) aliases(device string) []stanza {
	return slices.DeleteFunc(stanzas(c.docs), func(s stanza) bool { return !strings.HasPrefix(s.name, device+":") })
}

// bridge changes the documents for one device.
func (c *configuration) bridge(b Bridging) {
	own := c.named(b.Device)
	port := c.portStanza(b, own)
	mac := c.hardwareAddress(b, own)
	for i, s := range own {
		c.moveToPort(s)
		s.header.replace(1, b.Bridge)
		c.redirect(s, b)
		if i == 0 {
			// In the first stanza alone: the scripts of bridge-utils make the
			// bridge when that is brought up, and the others find it there.
			s.insertOptions(bridgeOptions(b, mac))
			at := slices.Index(s.doc.lines, s.header)
			s.doc.lines = slices.Insert(s.doc.lines, at, port...)
		}
		s.doc.changed = true
	}
	for _, s := range c.aliases(b.Device) {
		s.header.replace(1, renamed(s.name, b))
		c.redirect(s, b)
		s.doc.changed = true
	}
	c.bringUp(b)
}

// renamed gives an alias of the device the name of one of the bridge.
func renamed(alias string, b Bridging) string {
	return b.Bridge + strings.TrimPrefix(alias, b.Device)
}

// bridgeOptions are what makes the scripts of bridge-utils make a bridge that
// forwards at once.
func bridgeOptions(b Bridging, mac string) [][2]string {
	options := [][2]string{
		{"bridge_ports", b.Device},
		{"bridge_stp", "off"},
		{"bridge_fd", "0"},
		{"bridge_maxwait", "0"},
	}
	if mac != "" {
		options = append(options, [2]string{"bridge_hw", mac})
	}
	return options
}

// insertOptions puts options before those that the stanza has, which win.
func (s stanza) insertOptions(options [][2]string) {
	indent, has := "    ", make(map[string]bool)
	for i, l := range s.options() {
		if i == 0 {
			indent = l.indent()
		}
		has[l.key()] = true
	}
	at, _ := s.body()
	for _, o := range options {
		if has[strings.ReplaceAll(o[0], "_", "-")] {
			continue
		}
		s.doc.lines = slices.Insert(s.doc.lines, at, newLine(option, indent+o[0]+" "+o[1]))
		at++
	}
}

// hardwareAddress is the one that was observed, else the one that the files give
// the device.
func (c *configuration) hardwareAddress(b Bridging, own []stanza) string {
	if b.MAC != "" {
		return plan.CanonicalMAC(b.MAC)
	}
	for _, s := range own {
		for _, l := range c.withInherited(s) {
			if l.key() == "hwaddress" || l.key() == "hw-mac-address" {
				// An older form has "ether" before the address.
				return plan.CanonicalMAC(l.words[len(l.words)-1])
			}
		}
	}
	return ""
}

// withInherited returns the options of a stanza and of those that it is based on.
func (c *configuration) withInherited(s stanza) []*line {
	named, seen := byName(stanzas(c.docs)), make(map[string]bool)
	var collect func(s stanza) []*line
	collect = func(s stanza) []*line {
		found := s.options()
		if s.inherits != "" && !seen[s.inherits] {
			seen[s.inherits] = true
			for _, base := range named[s.inherits] {
				found = append(found, collect(base)...)
			}
		}
		return found
	}
	return collect(s)
}

// method returns how the stanza is brought up, inherited or its own.
func (c *configuration) method(s stanza) (family, method string) {
	named, seen := byName(stanzas(c.docs)), make(map[string]bool)
	for s.family == "" && s.inherits != "" && !seen[s.inherits] {
		seen[s.inherits] = true
		bases := named[s.inherits]
		if len(bases) == 0 {
			break
		}
		s = bases[0]
	}
	return s.family, s.method
}

// whose says where an option of a device belongs once that is a port.
type whose int

const (
	// bridgeOption moves, with all that is not known here: addresses, names,
	// routes, and the commands that go with them.
	bridgeOption whose = iota
	// portOption stays: it is about the hardware, or about what the device is
	// made of.
	portOption
	// bothOption is for both.
	bothOption
)

func belongs(key string) whose {
	switch key {
	case "mtu":
		return bothOption
	case "hwaddress", "hw-mac-address", "slaves", "flow-control", "driver-message-level":
		return portOption
	}
	for _, prefix := range []string{"bond-", "vlan-", "wpa-", "wireless-", "ethernet-", "link-", "offload-", "hardware-"} {
		if strings.HasPrefix(key, prefix) {
			return portOption
		}
	}
	return bridgeOption
}

// portStanza returns what the device has from now on: a stanza without an
// address, its own options, and what it inherited of them. Options that are
// written in its stanzas bring their comments along.
func (c *configuration) portStanza(b Bridging, own []stanza) []*line {
	lines := []*line{newLine(header, "iface "+b.Device+" inet manual")}
	has := func(l *line, whole bool) bool {
		return slices.ContainsFunc(lines[1:], func(o *line) bool {
			return o.kind == option && o.key() == l.key() && (!whole || slices.Equal(o.words[1:], l.words[1:]))
		})
	}
	add := func(l *line) {
		copied := *l
		lines = append(lines, &copied)
	}
	for _, s := range own {
		for _, l := range s.options() {
			if belongs(l.key()) != portOption {
				continue
			}
			for _, above := range s.above(l) {
				add(above)
			}
			// The stanzas of two families may both give the same.
			if !has(l, true) {
				add(l)
			}
		}
	}
	for _, s := range own {
		for _, l := range c.withInherited(s) {
			if belongs(l.key()) != bridgeOption && !has(l, false) {
				add(l)
			}
		}
	}
	return append(lines, &line{kind: blank, raw: "\n"})
}

// above returns the comments that stand right above an option.
func (s stanza) above(l *line) []*line {
	from, _ := s.body()
	to := slices.Index(s.doc.lines, l)
	at := to
	for at > from && s.doc.lines[at-1].kind == comment {
		at--
	}
	return s.doc.lines[at:to]
}

// moveToPort takes the port's own options out of a stanza, and their comments.
func (c *configuration) moveToPort(s stanza) {
	for _, l := range s.options() {
		if belongs(l.key()) != portOption {
			continue
		}
		to := slices.Index(s.doc.lines, l)
		from := to - len(s.above(l))
		s.doc.lines = slices.Delete(s.doc.lines, from, to+1)
	}
}
