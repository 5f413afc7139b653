package strictyaml

import (
	"bytes"
	"regexp"

	"gopkg.in/yaml.v3"
)

var (
	// plain are texts that need no quotes for any reader of YAML 1.1 or
	// 1.2, once the encoder has quoted those that look like numbers.
	plain = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9/._+@-]*(:[A-Za-z0-9/._+@-]+)*$`)
	// word are those of the plain ones that YAML 1.1 takes for a truth
	// value, and sexagesimal those that it takes for a number.
	word        = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null)$`)
	sexagesimal = regexp.MustCompile(`^[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	// block are texts of several lines that a literal block keeps as they
	// are, such as PEM.
	block = regexp.MustCompile(`^([!-~][ -~]*\n)+([!-~][ -~]*)?$`)
)

// TextNode returns the scalar that says s, in the form that every reader takes
// for the same text: plain when nothing can mistake it, a block for lines, and
// else in double quotes. s must be UTF-8.
func TextNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	setText(n, s)
	return n
}

func setText(n *yaml.Node, s string) {
	n.Value = s
	switch {
	case plain.MatchString(s) && !word.MatchString(s) && !sexagesimal.MatchString(s):
		n.Style = 0
	case block.MatchString(s):
		n.Style = yaml.LiteralStyle
	default:
		n.Style = yaml.DoubleQuotedStyle
	}
}

// Normalise drops how the node and all below it were written, comments too, and
// keeps what they say to any reader: a yes without quotes, which YAML 1.1 takes
// for a truth value, gets none, and "yes" keeps them.
func Normalise(n *yaml.Node) {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	text := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str"
	ambiguous := word.MatchString(n.Value) || sexagesimal.MatchString(n.Value)
	if text && (n.Style != 0 || !ambiguous) {
		setText(n, n.Value)
	} else {
		n.Style = 0
	}
	for _, child := range n.Content {
		Normalise(child)
	}
}

// Encode returns the YAML of a mapping of these nodes: key, value, key, value.
// It returns errors.NotValid for what no file may hold. The encoder's own error
// is dropped: it may quote.
func Encode(file string, pairs []*yaml.Node) ([]byte, error) {
	// Before the work: YAML never takes less room than what it says.
	if textSize(pairs) > MaxSize {
		return nil, NotValid(file, 0, "", "larger than 1 MiB")
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	mapping := &yaml.Node{Kind: yaml.MappingNode, Content: pairs}
	if enc.Encode(mapping) != nil || enc.Close() != nil {
		return nil, NotValid(file, 0, "", "cannot be written as YAML")
	}
	if out.Len() > MaxSize {
		return nil, NotValid(file, 0, "", "larger than 1 MiB")
	}
	return out.Bytes(), nil
}

func textSize(nodes []*yaml.Node) int {
	size := 0
	for _, n := range nodes {
		size += len(n.Value) + textSize(n.Content)
	}
	return size
}
