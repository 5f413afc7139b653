package agentconf

import (
	"bytes"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator/internal/strictyaml"
)

const (
	// fileName is what errors call the input.
	fileName = "agent.conf"
	// formatLine is the first line of a file, save for white space at its
	// end.
	formatLine = "# format 2.0"
)

// MaxSize is the greatest size in bytes of a file that [Parse] reads and
// [Config.Render] writes.
const MaxSize = strictyaml.MaxSize

// Parse reads an agent.conf. Keys may come in any order, be empty or missing;
// [Config.Validate] tells whether an agent can work with the result. Keys that
// are not known are kept for Render, without their comments.
//
// Every error is an errors.NotValid that names the line, the field and the rule
// and quotes nothing of data. Parse does not keep data.
func Parse(data []byte) (*Config, error) {
	if len(data) > MaxSize {
		return nil, strictyaml.NotValid(fileName, 0, "", "larger than 1 MiB")
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != formatLine {
		return nil, strictyaml.NotValid(fileName, 1, "", "want "+formatLine)
	}
	pairs, err := strictyaml.Load(fileName, data)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	var unknown []*yaml.Node
	for _, p := range pairs {
		f := fieldOf(p.Key.Value)
		if f == nil {
			unknown = append(unknown, p.Key, p.Value)
			continue
		}
		if err := f.parse(c, p.Value); err != nil {
			return nil, err
		}
	}
	if c.extra, err = renderUnknown(unknown); err != nil {
		return nil, err
	}
	return c, nil
}

// parse sets the field of c to what the node says.
func (f *field) parse(c *Config, n *yaml.Node) error {
	switch {
	case f.list != nil:
		list, err := f.parseList(n)
		*f.list(c) = list
		return err
	case f.values != nil:
		values, err := f.parseValues(n)
		*f.values(c) = values
		return err
	}
	text, ok := strictyaml.Text(n)
	if !ok {
		return strictyaml.NotValid(fileName, n.Line, f.key, "want text")
	}
	if f.secret != nil {
		*f.secret(c) = facade.NewSecret(text)
		return nil
	}
	text, ok = strings.CutPrefix(text, f.prefix)
	if !ok && text != "" {
		return strictyaml.NotValid(fileName, n.Line, f.key, "want "+f.prefix+"<uuid>")
	}
	*f.text(c) = text
	return nil
}

func (f *field) parseList(n *yaml.Node) ([]string, error) {
	if strictyaml.IsNull(n) {
		return nil, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, strictyaml.NotValid(fileName, n.Line, f.key, "want a list")
	}
	var out []string
	for _, item := range n.Content {
		text, ok := strictyaml.Text(item)
		if !ok {
			return nil, strictyaml.NotValid(fileName, item.Line, f.key, "want a list of text")
		}
		out = append(out, text)
	}
	return out, nil
}

func (f *field) parseValues(n *yaml.Node) (map[string]string, error) {
	if strictyaml.IsNull(n) {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, strictyaml.NotValid(fileName, n.Line, f.key, "want a mapping")
	}
	var out map[string]string
	for _, p := range strictyaml.Pairs(n) {
		text, ok := strictyaml.Text(p.Value)
		if !ok {
			return nil, strictyaml.NotValid(fileName, p.Value.Line, f.key, "want a mapping of text to text")
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[p.Key.Value] = text
	}
	return out, nil
}

// renderUnknown returns the YAML of pairs whose keys are not known: the same
// data in the same order, in the one form that Render uses.
func renderUnknown(pairs []*yaml.Node) (facade.Secret, error) {
	if len(pairs) == 0 {
		return facade.Secret{}, nil
	}
	for _, n := range pairs {
		strictyaml.Normalise(n)
	}
	out, err := strictyaml.Encode(fileName, pairs)
	if err != nil {
		return facade.Secret{}, err
	}
	return facade.NewSecret(string(out)), nil
}
