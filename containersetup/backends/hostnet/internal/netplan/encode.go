package netplan

import (
	"bytes"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// encode returns the text of a document that was changed. What it says is read
// back and compared, since the encoder is known to lose or misplace a comment now
// and then, and a comment in the wrong place can change the meaning of a file on
// which the host's reachability depends.
func (d *document) encode() ([]byte, error) {
	settle(d.root)
	data, ok := d.try()
	if !ok {
		// Without comments it is right; they are kept at the end.
		strip(d.root)
		if data, ok = d.try(); !ok {
			return nil, plan.Unsupported(d.name, 0, "YAML that cannot be written back with the same meaning")
		}
	}
	return data, nil
}

// try encodes, adds what comments were lost, and reads it back.
func (d *document) try() ([]byte, bool) {
	data, err := encodeNode(d.root, indentOf(d.network()))
	if err != nil {
		return nil, false
	}
	data = append(data, lost(comments(d.source), data)...)
	back, err := decode(data)
	if err != nil || back == nil || !same(d.root, back) {
		return nil, false
	}
	return data, true
}

func encodeNode(n *yaml.Node, indent int) (data []byte, err error) {
	// As for the parser: a panic is one more way to say no.
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, errors.Errorf("encoder: %.80v", p)
		}
	}()
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(indent)
	if err := enc.Encode(n); err != nil {
		return nil, errors.Trace(err)
	}
	if err := enc.Close(); err != nil {
		return nil, errors.Trace(err)
	}
	return buf.Bytes(), nil
}

// indentOf returns by how many columns the author sets things in.
func indentOf(network *yaml.Node) int {
	if network == nil || len(network.Content) == 0 || network.Style&yaml.FlowStyle != 0 {
		return 2
	}
	if n := network.Content[0].Column - 1; n >= 2 && n <= 8 {
		return n
	}
	return 2
}

// settle puts anchors before their aliases again, after nodes were moved and
// copied: the first alias whose anchor is not yet there becomes the anchor. Each
// anchor is copied once at most, so the document cannot grow without bound.
func settle(root *yaml.Node) {
	placed := make(map[*yaml.Node]*yaml.Node) // what an alias stands for, and where it is now
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if n.Anchor != "" {
			if p := placed[n]; p != nil && p != n {
				n.Anchor = ""
			} else {
				placed[n] = n
			}
		}
		for i, c := range n.Content {
			if c.Kind != yaml.AliasNode {
				walk(c)
				continue
			}
			if p := placed[c.Alias]; p != nil {
				c.Alias = p
				continue
			}
			here := copyOf(c)
			here.Anchor = c.Alias.Anchor
			here.HeadComment, here.LineComment, here.FootComment = c.HeadComment, c.LineComment, c.FootComment
			placed[c.Alias] = here
			n.Content[i] = here
			walk(here)
		}
	}
	walk(root)
}

// strip takes all comments off.
func strip(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	for _, c := range n.Content {
		strip(c)
	}
}

// same tells whether two documents say the same, comments and style aside.
func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) || a.Anchor != b.Anchor {
		return false
	}
	switch a.Kind {
	case yaml.AliasNode:
		return a.Alias.Anchor == b.Alias.Anchor
	case yaml.ScalarNode:
		if a.Value != b.Value {
			return false
		}
	}
	if a.Kind != yaml.DocumentNode && a.ShortTag() != b.ShortTag() {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// comments returns what may be comments in a text, one a line, from the mark on.
// It takes a line of a text in quotes for one too, which does no harm: that is
// still there afterwards.
func comments(source []byte) []string {
	var found []string
	for _, line := range strings.FieldsFunc(string(source), isBreak) {
		line = strings.TrimRight(line, " \t")
		for i := range len(line) {
			if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
				found = append(found, line[i:])
				break
			}
		}
	}
	return found
}

// isBreak knows all that ends a line in YAML 1.1.
func isBreak(r rune) bool {
	switch r {
	case '\n', '\r', '\u0085', '\u2028', '\u2029':
		return true
	}
	return false
}

// lost returns those comments that the text does not have, as lines to add to it.
func lost(wanted []string, data []byte) []byte {
	there := make(map[string]int)
	for _, c := range comments(data) {
		there[c]++
	}
	var add []byte
	for _, c := range wanted {
		if there[c] > 0 {
			there[c]--
			continue
		}
		add = append(append(add, c...), '\n')
	}
	return add
}
