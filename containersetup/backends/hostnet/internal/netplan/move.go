package netplan

import (
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// whose says where a key of a device belongs once that is a port.
type whose int

const (
	// portKey stays: it is about the hardware, or about what the device is made
	// of. So does every key that is not known here.
	portKey whose = iota
	// bridgeKey moves: it is about addresses, names and routes.
	bridgeKey
	// bothKey is for both.
	bothKey
)

// belongs says whose a key is, and of what type its value has to be.
func belongs(key string) (whose, yaml.Kind) {
	switch key {
	case "addresses", "routes", "routing-policy", "link-local", "optional-addresses":
		return bridgeKey, yaml.SequenceNode
	case "nameservers", "dhcp4-overrides", "dhcp6-overrides":
		return bridgeKey, yaml.MappingNode
	case "dhcp4", "dhcp6", "dhcp-identifier", "gateway4", "gateway6", "accept-ra", "critical", "ignore-carrier",
		"ipv6-privacy", "ipv6-address-generation", "ipv6-address-token":
		return bridgeKey, yaml.ScalarNode
	case "mtu", "ipv6-mtu", "optional", "activation-mode":
		return bothKey, yaml.ScalarNode
	case "macaddress", "set-name", "renderer", "wakeonlan":
		return portKey, yaml.ScalarNode
	case "match", "parameters", "openvswitch":
		return portKey, yaml.MappingNode
	case "interfaces":
		return portKey, yaml.SequenceNode
	}
	return portKey, 0
}

// checkTypes refuses a key that is of another type than netplan's, before it is
// moved to where its error would be blamed on somebody else.
func (def *definition) checkTypes() error {
	for _, p := range def.parts {
		for i := 0; i < len(p.mapping.Content); i += 2 {
			key, v := text(p.mapping.Content[i]), p.mapping.Content[i+1]
			_, want := belongs(key)
			if want != 0 && (deref(v).Kind != want || deref(v).Tag == "!!null") {
				return plan.Invalid(p.doc.name, v.Line, "%s.%s.%s is a %s (want a %s)",
					def.kind, def.id, key, kindName(deref(v)), kindName(&yaml.Node{Kind: want}))
			}
		}
	}
	return nil
}

// move takes the bridge's keys out of the part and returns them, keys and values.
func (p part) move(def *definition) (moved []*yaml.Node) {
	if !p.moves() {
		return nil
	}
	p.doc.changed = true
	mapping := p.doc.own(def.kind, def.id)
	var rest []*yaml.Node
	for i := 0; i < len(mapping.Content); i += 2 {
		k, v := mapping.Content[i], mapping.Content[i+1]
		w, _ := belongs(text(k))
		if w == bridgeKey {
			moved = append(moved, k, v)
			continue
		}
		rest = append(rest, k, v)
		if w == bothKey {
			moved = append(moved, scalarNode(text(k)), copyOf(v))
		}
	}
	mapping.Content = rest
	return moved
}

// moves tells whether the part has anything for the bridge.
func (p part) moves() bool {
	for i := 0; i < len(p.mapping.Content); i += 2 {
		if w, _ := belongs(text(p.mapping.Content[i])); w != portKey {
			return true
		}
	}
	return false
}

// network returns the mapping of that name, or nil.
func (d *document) network() *yaml.Node {
	if d.root == nil {
		return nil
	}
	if n := value(deref(d.root.Content[0]), "network"); n != nil {
		return deref(n)
	}
	return nil
}

// own returns the mapping at a path below "network" in a form that may be
// changed: neither an alias, nor what an alias refers to.
func (d *document) own(path ...string) *yaml.Node {
	d.root.Content[0] = unshared(d.root.Content[0])
	n := d.root.Content[0]
	for _, key := range append([]string{"network"}, path...) {
		i := index(n, key)
		n.Content[i+1] = unshared(n.Content[i+1])
		n = n.Content[i+1]
	}
	d.refresh()
	return n
}

// refresh looks the sections up again after a node was replaced.
func (d *document) refresh() {
	network := d.network()
	d.sections = nil
	for i := 0; i < len(network.Content); i += 2 {
		if key := text(network.Content[i]); isKind(key) {
			d.sections = append(d.sections, section{kind: key, mapping: deref(network.Content[i+1])})
		}
	}
}

// unshared returns a node that nobody else refers to. What others refer to is
// left out of the document; settle puts it where the first of them is.
func unshared(n *yaml.Node) *yaml.Node {
	switch {
	case n.Kind == yaml.AliasNode:
		c := copyOf(n)
		c.HeadComment, c.LineComment, c.FootComment = n.HeadComment, n.LineComment, n.FootComment
		return c
	case n.Anchor != "":
		return clone(n)
	}
	return n
}

// copyOf returns what a node is or stands for, without anchors and comments,
// which would otherwise be there twice. Aliases inside stay aliases.
func copyOf(n *yaml.Node) *yaml.Node {
	c := clone(deref(n))
	strip(c)
	return c
}

// clone copies a node without its anchors.
func clone(n *yaml.Node) *yaml.Node {
	c := *n
	c.Anchor = ""
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		c.Content[i] = clone(child)
	}
	return &c
}

// addBridge puts a bridge at the end of the document's bridges.
func (d *document) addBridge(id string, br *yaml.Node) {
	d.changed = true
	if index(d.network(), "bridges") < 0 {
		put(d.own(), "bridges", &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
	}
	put(d.own("bridges"), id, br)
	d.refresh()
}

func put(mapping *yaml.Node, key string, v *yaml.Node) {
	mapping.Content = append(mapping.Content, scalarNode(key), v)
}

func scalarNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s}
	n.Tag = n.ShortTag()
	if n.Tag != "!!str" {
		// A name that looks like a number stays a name.
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	}
	return n
}

// mappingNode takes keys and plain values.
func mappingNode(pairs ...string) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for i := 0; i < len(pairs); i += 2 {
		v := &yaml.Node{Kind: yaml.ScalarNode, Value: pairs[i+1]}
		v.Tag = v.ShortTag()
		put(m, pairs[i], v)
	}
	return m
}
