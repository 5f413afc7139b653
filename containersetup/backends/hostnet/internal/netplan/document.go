package netplan

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// document is one file.
type document struct {
	name   string
	source []byte
	// root is nil when the file holds nothing.
	root *yaml.Node
	// sections are the kinds of devices that the file has, in its order.
	sections []section
	changed  bool
}

// section is a mapping from ids to definitions.
type section struct {
	kind string
	// mapping is as it was read, reached through an alias or not.
	mapping *yaml.Node
}

// kinds are the keys of "network" that hold definitions.
func isKind(key string) bool {
	switch key {
	case "ethernets", "bonds", "vlans", "bridges", "wifis", "modems", "tunnels", "vrfs", "nm-devices",
		"dummy-devices", "virtual-ethernets":
		return true
	}
	return false
}

// parse reads a file and checks the types of all that is looked at later.
func parse(f File) (*document, error) {
	d := &document{name: f.Name, source: f.Data}
	root, err := decode(f.Data)
	if err != nil {
		line, message := syntaxError(err)
		return nil, plan.Invalid(f.Name, line, "YAML does not parse: %s", message)
	}
	if root == nil || root.Content[0].Tag == "!!null" {
		return d, nil
	}
	d.root = root
	if err := d.checkAnchors(); err != nil {
		return nil, err
	}
	top, err := d.mapping(root.Content[0], "the document")
	if err != nil {
		return nil, err
	}
	network := value(top, "network")
	if network == nil {
		return d, nil
	}
	if network, err = d.mapping(network, "network"); err != nil {
		return nil, err
	}
	for i := 0; i < len(network.Content); i += 2 {
		key := text(network.Content[i])
		if !isKind(key) {
			continue
		}
		if err := d.readSection(key, network.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *document) readSection(kind string, n *yaml.Node) error {
	m, err := d.mapping(n, kind)
	if err != nil {
		return err
	}
	for i := 0; i < len(m.Content); i += 2 {
		id := text(m.Content[i])
		if id == "renderer" { // for all of the kind
			continue
		}
		if _, err := d.mapping(m.Content[i+1], kind+"."+id); err != nil {
			return err
		}
	}
	d.sections = append(d.sections, section{kind: kind, mapping: m})
	return nil
}

// mapping returns what n is or stands for when it is a mapping with plain keys,
// each there once. netplan itself takes a key twice and adds up; nobody means
// that, and what to rewrite would be a guess.
func (d *document) mapping(n *yaml.Node, path string) (*yaml.Node, error) {
	m := deref(n)
	if m.Kind != yaml.MappingNode {
		return nil, plan.Invalid(d.name, n.Line, "%s is a %s (want a mapping)", plan.Quote(path), kindName(m))
	}
	seen := make(map[string]bool, len(m.Content)/2)
	for i := 0; i < len(m.Content); i += 2 {
		k := m.Content[i]
		if deref(k).Kind != yaml.ScalarNode {
			return nil, plan.Invalid(d.name, k.Line, "%s has a key that is a %s (want a scalar)", plan.Quote(path), kindName(deref(k)))
		}
		if key := text(k); seen[key] {
			return nil, plan.Invalid(d.name, k.Line, "%s has the key %s twice", plan.Quote(path), plan.Quote(key))
		}
		seen[text(k)] = true
	}
	return m, nil
}

// checkAnchors refuses what may be YAML but makes no sense in a configuration:
// an anchor that contains itself, or one name for two.
func (d *document) checkAnchors() error {
	names := make(map[string]bool)
	above := make(map[*yaml.Node]bool)
	var walk func(n *yaml.Node) error
	walk = func(n *yaml.Node) error {
		if n.Kind == yaml.AliasNode {
			if above[n.Alias] {
				return plan.Invalid(d.name, n.Line, "anchor %s contains itself", plan.Quote(n.Value))
			}
			return nil
		}
		if n.Anchor != "" {
			if names[n.Anchor] {
				return plan.Invalid(d.name, n.Line, "anchor %s is there twice", plan.Quote(n.Anchor))
			}
			names[n.Anchor] = true
		}
		above[n] = true
		for _, c := range n.Content {
			if err := walk(c); err != nil {
				return err
			}
		}
		delete(above, n)
		return nil
	}
	return walk(d.root)
}

// decode returns the only document, or nil when there is none.
func decode(data []byte) (root *yaml.Node, err error) {
	// The parser has panicked on malformed input before, and a file on a host
	// may hold anything.
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, errors.Errorf("parser: %.80v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var n yaml.Node
	if err := dec.Decode(&n); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, errors.Trace(err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); err == nil {
		return nil, errors.Errorf("line %d: a second document (want one)", more.Line)
	} else if err != io.EOF {
		return nil, errors.Trace(err)
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		return nil, nil
	}
	return &n, nil
}

var atLine = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntaxError takes the line out of the parser's message.
func syntaxError(err error) (line int, message string) {
	m := atLine.FindStringSubmatch(err.Error())
	line, _ = strconv.Atoi(m[1])
	return line, strings.Join(strings.Fields(m[2]), " ")
}

// deref returns what an alias stands for.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// text returns a scalar as it is written: netplan gives types by place, not by
// form, so that yes, "yes" and 'yes' are one.
func text(n *yaml.Node) string {
	return deref(n).Value
}

// value returns the value of a key, or nil.
func value(mapping *yaml.Node, key string) *yaml.Node {
	if i := index(mapping, key); i >= 0 {
		return mapping.Content[i+1]
	}
	return nil
}

// index returns where a key is in the mapping's content, or -1.
func index(mapping *yaml.Node, key string) int {
	for i := 0; i < len(mapping.Content); i += 2 {
		if k := deref(mapping.Content[i]); k.Kind == yaml.ScalarNode && k.Value == key {
			return i
		}
	}
	return -1
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "mapping"
	case yaml.SequenceNode:
		return "sequence"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "null"
		}
		return "scalar"
	}
	return fmt.Sprintf("node of kind %d", n.Kind)
}
