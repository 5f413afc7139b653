// Package strictyaml reads the small YAML files that operators are configured
// with. It takes one document that is a mapping of plain data and refuses the
// rest of YAML: aliases and anchors, merge keys, explicit tags, keys that are
// no text, keys that are there twice, deep nesting, a second document.
//
// The files hold secrets, so no error repeats anything of its input: an error
// names the file, the line, the field if it is one that the caller knows, and
// the rule. The parser's own messages, which quote, are dropped.
package strictyaml

import (
	"bytes"
	"io"
	"regexp"
	"strconv"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"
)

const (
	// MaxSize is the greatest size of a file in bytes.
	MaxSize = 1 << 20
	// maxDepth is how deep a file may nest. What agents write needs three.
	maxDepth = 32
)

// Pair is one key of the mapping and its value.
type Pair struct {
	Key, Value *yaml.Node
}

// Load returns the pairs of the document's top-level mapping in their order;
// none for an empty document. file is what errors call the document. Every
// error is an errors.NotValid.
func Load(file string, data []byte) ([]Pair, error) {
	if len(data) > MaxSize {
		return nil, NotValid(file, 0, "", "larger than 1 MiB")
	}
	doc, err := decode(file, data)
	if err != nil || doc == nil {
		return nil, err
	}
	root := doc.Content[0]
	if IsNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, NotValid(file, root.Line, "", "want a mapping")
	}
	if err := check(file, root, 0); err != nil {
		return nil, err
	}
	return Pairs(root), nil
}

// Pairs returns the pairs of a mapping in their order.
func Pairs(mapping *yaml.Node) []Pair {
	out := make([]Pair, 0, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		out = append(out, Pair{Key: mapping.Content[i], Value: mapping.Content[i+1]})
	}
	return out
}

// IsNull reports whether the node stands for no value at all.
func IsNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// Text returns what a scalar says, as it is written: an unquoted 12 or true is
// the text "12" or "true", as it is for every agent that reads such a file into
// strings. Null is the empty text. ok is false for anything but a scalar.
func Text(n *yaml.Node) (text string, ok bool) {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", false
	case IsNull(n):
		return "", true
	}
	return n.Value, true
}

// NotValid returns the errors.NotValid that names file, line (unless 0), field
// (unless empty) and rule. Field and rule must be words of the program's, not
// of the input.
func NotValid(file string, line int, field, rule string) error {
	where := file
	if line > 0 {
		where += " line " + strconv.Itoa(line)
	}
	if field != "" {
		where += ", " + field
	}
	return errors.NotValidf("%s (%s)", where, rule)
}

// decode returns the only document, or nil when there is none.
func decode(file string, data []byte) (doc *yaml.Node, err error) {
	// The parser has panicked on malformed documents before. A stored
	// file must not be able to take its reader down.
	defer func() {
		if recover() != nil {
			doc, err = nil, NotValid(file, 0, "", "not YAML")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case err == io.EOF:
		return nil, nil
	case err != nil:
		return nil, notYAML(file, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, NotValid(file, second.Line, "", "more than one document")
	case err != io.EOF:
		return nil, notYAML(file, err)
	}
	return &first, nil
}

// errorLine is anchored, so that it never takes a number out of the input.
var errorLine = regexp.MustCompile(`^yaml: line ([0-9]{1,7}): `)

// notYAML keeps of the parser's error the line alone. It is where the broken
// construct begins, or the line above.
func notYAML(file string, err error) error {
	m := errorLine.FindStringSubmatch(err.Error())
	if m == nil {
		return NotValid(file, 0, "", "not YAML")
	}
	line, _ := strconv.Atoi(m[1])
	return NotValid(file, line, "", "not YAML at or below this line")
}

// check walks the document and refuses what is not plain data.
func check(file string, n *yaml.Node, depth int) error {
	switch {
	case depth > maxDepth:
		return NotValid(file, n.Line, "", "nested too deep")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return NotValid(file, n.Line, "", "anchors and aliases are not taken")
	case n.Style&yaml.TaggedStyle != 0:
		return NotValid(file, n.Line, "", "explicit tags are not taken")
	}
	if n.Kind == yaml.MappingNode {
		if err := checkKeys(file, n); err != nil {
			return err
		}
	}
	for _, child := range n.Content {
		if err := check(file, child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func checkKeys(file string, mapping *yaml.Node) error {
	seen := make(map[string]bool, len(mapping.Content)/2)
	for _, p := range Pairs(mapping) {
		switch {
		case p.Key.Kind == yaml.AliasNode:
			return NotValid(file, p.Key.Line, "", "anchors and aliases are not taken")
		case p.Key.Kind != yaml.ScalarNode || IsNull(p.Key):
			return NotValid(file, p.Key.Line, "", "want a key that is text")
		case p.Key.ShortTag() == "!!merge":
			return NotValid(file, p.Key.Line, "", "merge keys are not taken")
		case seen[p.Key.Value]:
			return NotValid(file, p.Key.Line, "", "a key is there twice")
		}
		seen[p.Key.Value] = true
	}
	return nil
}
