package agentconf

import (
	"bytes"
	"maps"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/operator/internal/strictyaml"
)

// Render returns the file: the same bytes for the same configuration. Keys
// that were not known to [Parse] come last, as they were.
//
// It returns what [Config.Validate] returns, and errors.NotValid for a
// configuration whose file would be larger than [MaxSize]. The file holds
// secrets: it belongs in a facade.Secret or a file of mode 0600.
func (c *Config) Render() ([]byte, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for i := range fields {
		f := &fields[i]
		if value := f.render(c); value != nil {
			mapping.Content = append(mapping.Content, textNode(f.key), value)
		}
	}
	known, err := encode(mapping)
	if err != nil {
		return nil, err
	}
	out := slices.Concat([]byte(formatLine+"\n"), known, []byte(c.extra.Reveal()))
	if len(out) > MaxSize {
		return nil, invalid("file", "larger than 1 MiB")
	}
	return out, nil
}

// render returns the node of the field's value, or nil to leave the key out.
func (f *field) render(c *Config) *yaml.Node {
	switch {
	case f.list != nil:
		return listNode(*f.list(c))
	case f.values != nil:
		return mapNode(*f.values(c))
	}
	text := f.texts(c)[0]
	switch {
	case text != "":
		return textNode(f.prefix + text)
	case f.fallback != "":
		return textNode(f.fallback)
	case f.always:
		return textNode("")
	}
	return nil
}

func listNode(items []string) *yaml.Node {
	if len(items) == 0 {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		n.Content = append(n.Content, textNode(item))
	}
	return n
}

func mapNode(m map[string]string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n.Content = append(n.Content, textNode(k), textNode(m[k]))
	}
	return n
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	setText(n, s)
	return n
}

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

// setText makes n the scalar that says s, in the form that every reader takes
// for the same text: plain when nothing can mistake it, a block for lines, and
// else in double quotes.
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

// encode returns the YAML of a mapping. The encoder's own error is dropped: it
// may quote.
func encode(mapping *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if enc.Encode(mapping) != nil || enc.Close() != nil {
		return nil, strictyaml.NotValid(fileName, 0, "", "cannot be written as YAML")
	}
	return out.Bytes(), nil
}
