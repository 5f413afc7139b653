package agentconf

import (
	"maps"
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
	var pairs []*yaml.Node
	for i := range fields {
		f := &fields[i]
		if value := f.render(c); value != nil {
			pairs = append(pairs, strictyaml.TextNode(f.key), value)
		}
	}
	known, err := strictyaml.Encode(fileName, pairs)
	if err != nil {
		return nil, err
	}
	out := slices.Concat([]byte(formatLine+"\n"), known, []byte(c.extra.Reveal()))
	if len(out) > MaxSize {
		return nil, strictyaml.NotValid(fileName, 0, "", "larger than 1 MiB")
	}
	return out, nil
}

// Effective returns the one form of all files that tell a running agent the same:
// everything in them counts but the order of the controller's addresses, their
// repetition, and how it is written. A manager starts an operator again when it
// changes. A file that is no agent.conf is returned as it is. What is returned has
// the secrets of the file.
func Effective(file []byte) []byte {
	c, err := Parse(file)
	if err != nil {
		return file
	}
	slices.Sort(c.APIAddresses)
	c.APIAddresses = slices.Compact(c.APIAddresses)
	rendered, err := c.Render()
	if err != nil {
		return file
	}
	return rendered
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
		return strictyaml.TextNode(f.prefix + text)
	case f.fallback != "":
		return strictyaml.TextNode(f.fallback)
	case f.always:
		return strictyaml.TextNode("")
	}
	return nil
}

func listNode(items []string) *yaml.Node {
	if len(items) == 0 {
		return nil
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		n.Content = append(n.Content, strictyaml.TextNode(item))
	}
	return n
}

func mapNode(m map[string]string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		n.Content = append(n.Content, strictyaml.TextNode(k), strictyaml.TextNode(m[k]))
	}
	return n
}
