package netplan

import (
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// model is what the files say together.
type model struct {
	docs []*document
	defs []*definition
}

// definition is one device, as netplan sees it once all files are merged.
type definition struct {
	kind, id string
	// parts are what each file says of it, in order.
	parts []part
}

// part is what one file says of a device.
type part struct {
	doc     *document
	key     *yaml.Node
	mapping *yaml.Node
}

// read builds the model anew from the documents, which may have been changed.
func (m *model) read() error {
	m.defs = nil
	for _, d := range m.docs {
		for _, s := range d.sections {
			for i := 0; i < len(s.mapping.Content); i += 2 {
				if err := m.add(d, s.kind, s.mapping.Content[i], s.mapping.Content[i+1]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (m *model) add(d *document, kind string, key, value *yaml.Node) error {
	id := text(key)
	if id == "renderer" {
		return nil
	}
	p := part{doc: d, key: key, mapping: deref(value)}
	def := m.byID(id)
	if def == nil {
		def = &definition{kind: kind, id: id}
		m.defs = append(m.defs, def)
	} else if def.kind != kind {
		return plan.Invalid(d.name, key.Line, "%s is defined in %s and in %s (want one kind)", plan.Quote(id), def.kind, kind)
	}
	def.parts = append(def.parts, p)
	return nil
}

func (m *model) byID(id string) *definition {
	for _, def := range m.defs {
		if def.id == id {
			return def
		}
	}
	return nil
}

// first returns the file and line that an error about the definition names.
func (def *definition) first() (file string, line int) {
	return def.parts[0].doc.name, def.parts[0].key.Line
}

// scalar returns the last value of a key, as netplan does.
func (def *definition) scalar(key string) string {
	last := ""
	for _, p := range def.parts {
		if v := value(p.mapping, key); v != nil && deref(v).Kind == yaml.ScalarNode {
			last = text(v)
		}
	}
	return last
}

// has tells whether any file gives the key.
func (def *definition) has(key string) bool {
	return slices.ContainsFunc(def.parts, func(p part) bool { return index(p.mapping, key) >= 0 })
}

// list returns all elements of a key: netplan adds up what several files say.
func (def *definition) list(key string) (elements []string, err error) {
	for _, p := range def.parts {
		v := value(p.mapping, key)
		if v == nil {
			continue
		}
		if deref(v).Kind != yaml.SequenceNode {
			return nil, plan.Invalid(p.doc.name, v.Line, "%s.%s of %s is a %s (want a sequence)", def.kind, key, plan.Quote(def.id), kindName(deref(v)))
		}
		for _, e := range deref(v).Content {
			if deref(e).Kind != yaml.ScalarNode {
				return nil, plan.Invalid(p.doc.name, e.Line, "%s.%s of %s has an element that is a %s (want a scalar)", def.kind, key, plan.Quote(def.id), kindName(deref(e)))
			}
			elements = append(elements, text(e))
		}
	}
	return elements, nil
}

// match is by what a definition finds its device.
type match struct {
	there     bool
	mac, name string
}

func (def *definition) match() (match, error) {
	var m match
	for _, p := range def.parts {
		v := value(p.mapping, "match")
		if v == nil {
			continue
		}
		mapping, err := p.doc.mapping(v, def.kind+"."+def.id+".match")
		if err != nil {
			return match{}, err
		}
		m.there = true
		for i := 0; i < len(mapping.Content); i += 2 {
			switch text(mapping.Content[i]) {
			case "macaddress":
				m.mac = strings.ToLower(text(mapping.Content[i+1]))
			case "name":
				m.name = text(mapping.Content[i+1])
			}
		}
	}
	return m, nil
}

// fit says how well a definition and a device go together.
type fit int

const (
	fitsNot fit = iota
	// fitsMaybe is a pattern that may hold for other devices as well.
	fitsMaybe
	fitsOnly
)

func (def *definition) fits(b Bridging) (fit, error) {
	if def.kind != "ethernets" {
		// Virtual devices are called what they are.
		if def.id == b.Device {
			return fitsOnly, nil
		}
		return fitsNot, nil
	}
	m, err := def.match()
	if err != nil {
		return fitsNot, err
	}
	mac := strings.ToLower(b.MAC)
	switch name := def.scalar("set-name"); {
	case !m.there:
		if def.id == b.Device {
			return fitsOnly, nil
		}
		return fitsNot, nil
	case name != "":
		// Only one device can be given a name.
		if name == b.Device {
			return fitsOnly, nil
		}
		return fitsNot, nil
	case m.name != "" && !glob(m.name, b.Device):
		return fitsNot, nil
	case m.mac != "" && mac == "":
		// Nobody said what the device's address is; its id or its exact name
		// has to do.
		if def.id == b.Device || m.name == b.Device {
			return fitsOnly, nil
		}
		return fitsNot, nil
	case m.mac != "":
		// The address that was observed is the one that was set, if one was.
		if m.mac == mac || strings.ToLower(def.scalar("macaddress")) == mac {
			return fitsOnly, nil
		}
		return fitsNot, nil
	case m.name == b.Device:
		return fitsOnly, nil
	}
	return fitsMaybe, nil
}

// glob matches a name as netplan's tools do; a pattern that is malformed matches
// nothing.
func glob(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// find returns the definition of the device, and no other's.
func (m *model) find(b Bridging) (*definition, error) {
	var found, wide *definition
	for _, def := range m.defs {
		f, err := def.fits(b)
		if err != nil {
			return nil, err
		}
		switch {
		case f == fitsMaybe && (wide == nil || def.id < wide.id):
			wide = def
		case f == fitsOnly && found != nil:
			file, line := def.first()
			return nil, plan.Invalid(file, line, "device %q is defined by %s and by %s (want one)", b.Device, plan.Quote(found.id), plan.Quote(def.id))
		case f == fitsOnly:
			found = def
		}
	}
	// systemd-networkd takes the first file that matches, in the order of the
	// names that netplan makes of the ids.
	if wide != nil && (found == nil || wide.id < found.id) {
		file, line := wide.first()
		return nil, plan.Unsupported(file, line, "device %q is matched by %s, which may match others too (want a definition of its own)", b.Device, plan.Quote(wide.id))
	}
	if found == nil {
		return nil, plan.Missing(b.Device)
	}
	return found, nil
}

// renderer returns what sets the definition up, netplan's default included. One
// for a whole kind holds only in the file in which it stands.
func (m *model) renderer(def *definition) string {
	if r := def.scalar("renderer"); r != "" {
		return r
	}
	if r := m.kindRenderer(def.parts[0].doc, def.kind); r != "" {
		return r
	}
	return m.globalRenderer()
}

func (m *model) kindRenderer(d *document, kind string) string {
	for _, s := range d.sections {
		if s.kind == kind {
			if v := value(s.mapping, "renderer"); v != nil {
				return text(v)
			}
		}
	}
	return ""
}

// globalRenderer is the last that any file names, wherever the device stands.
func (m *model) globalRenderer() string {
	last := networkd
	for _, d := range m.docs {
		if n := d.network(); n != nil {
			if v := value(n, "renderer"); v != nil {
				last = text(v)
			}
		}
	}
	return last
}

// networkd is the renderer that this package writes for.
const networkd = "networkd"
