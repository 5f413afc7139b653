package netplan

import (
	"slices"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

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
// which netplan reads them, without those that another of the same base name
// hides.
//
// errors.NotValid names the file, the line and the rule; errors.AlreadyExists is
// for a bridge or a device that is used otherwise; errors.NotFound names a device
// that no file mentions; errors.NotSupported is for what is left alone, as what
// NetworkManager sets up. Nothing is returned besides an error.
func Bridge(files []File, bridgings []Bridging) (changed []File, err error) {
	if err := plan.ValidateAll(bridgings); err != nil {
		return nil, errors.Trace(err)
	}
	if err := plan.ValidateFiles(files); err != nil {
		return nil, errors.Trace(err)
	}
	m := &model{}
	for _, f := range files {
		d, err := parse(f)
		if err != nil {
			return nil, err
		}
		m.docs = append(m.docs, d)
	}
	if err := m.read(); err != nil {
		return nil, err
	}
	for _, b := range bridgings {
		if err := m.bridge(b); err != nil {
			return nil, err
		}
	}
	for _, d := range m.docs {
		if !d.changed {
			continue
		}
		data, err := d.encode()
		if err != nil {
			return nil, err
		}
		changed = append(changed, File{Name: d.name, Data: data})
	}
	return changed, nil
}

// bridge changes the documents for one device, or nothing if it is so already.
func (m *model) bridge(b Bridging) error {
	def, err := m.find(b)
	if err != nil {
		return err
	}
	done, err := m.check(def, b)
	if err != nil || done {
		return err
	}
	// What each file says of the device, it now says of the bridge: so what
	// netplan makes of all files together stays the same too.
	for i, p := range def.parts {
		// The order of keys is as for one who writes it by hand.
		br := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if i == 0 {
			m.head(br, def, b)
		}
		moved := p.move(def)
		br.Content = append(br.Content, moved...)
		if i == 0 {
			put(br, "parameters", mappingNode("stp", "false", "forward-delay", "0"))
		}
		if len(br.Content) > 0 {
			p.doc.addBridge(b.Bridge, br)
		}
	}
	return m.read()
}

// head gives the bridge what it has because it is one.
func (m *model) head(br *yaml.Node, def *definition, b Bridging) {
	port := scalarNode(def.id)
	put(br, "interfaces", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle, Content: []*yaml.Node{port}})
	if mac := hardwareAddress(def, b); mac != "" {
		// In quotes, since YAML 1.1 takes some for numbers to the base of 60.
		n := scalarNode(mac)
		n.Style = yaml.DoubleQuotedStyle
		put(br, "macaddress", n)
	}
	of := m.kindRenderer(def.parts[0].doc, "bridges")
	if of == "" {
		of = m.globalRenderer()
	}
	if of != networkd {
		put(br, "renderer", scalarNode(networkd))
	}
}

// hardwareAddress is the one that was observed, else the one that the device is
// given, else the one that it is known by.
func hardwareAddress(def *definition, b Bridging) string {
	if b.MAC != "" {
		return plan.CanonicalMAC(b.MAC)
	}
	if mac := plan.CanonicalMAC(def.scalar("macaddress")); mac != "" {
		return mac
	}
	m, err := def.match()
	if err != nil {
		return ""
	}
	return plan.CanonicalMAC(m.mac)
}

// check tells whether the device is under the bridge already, and refuses what
// cannot or must not be put there.
func (m *model) check(def *definition, b Bridging) (done bool, err error) {
	file, line := def.first()
	for _, other := range m.defs {
		if other.kind != "bridges" && other.kind != "bonds" && other.kind != "vrfs" {
			continue
		}
		members, err := other.list("interfaces")
		if err != nil {
			return false, err
		}
		if !slices.Contains(members, def.id) {
			continue
		}
		if other.kind == "bridges" && other.id == b.Bridge {
			return true, nil
		}
		otherFile, otherLine := other.first()
		return false, plan.Conflict(otherFile, otherLine, "device %q is one of the interfaces of %s.%s", b.Device, other.kind, other.id)
	}
	if other := m.byID(b.Bridge); other != nil {
		otherFile, otherLine := other.first()
		return false, plan.Conflict(otherFile, otherLine, "%q is there in %s without device %q among its interfaces", b.Bridge, other.kind, b.Device)
	}
	for _, other := range m.defs {
		if other.scalar("set-name") == b.Bridge {
			otherFile, otherLine := other.first()
			return false, plan.Conflict(otherFile, otherLine, "%q is the set-name of %s", b.Bridge, plan.Quote(other.id))
		}
	}
	switch def.kind {
	case "ethernets", "bonds", "vlans", "dummy-devices", "virtual-ethernets":
	case "bridges":
		return false, plan.Invalid(file, line, "device %q is a bridge itself", b.Device)
	default:
		return false, plan.Unsupported(file, line, "device %q is in %s, which are not bridged", b.Device, def.kind)
	}
	if r := m.renderer(def); r != networkd {
		return false, plan.Unsupported(file, line, "device %q has renderer %s (want networkd)", b.Device, plan.Quote(r))
	}
	if def.has("openvswitch") {
		return false, plan.Unsupported(file, line, "device %q belongs to Open vSwitch", b.Device)
	}
	return false, def.checkTypes()
}
