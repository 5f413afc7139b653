package model

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// MaxText is the greatest length of a text in a model's file, in bytes.
const MaxText = 1024

// document is one YAML file while it is read. The first problem sticks, and
// what is read after it is of no account, so that readers can ask for one thing
// after the other and look at the problem once, at the end.
type document struct {
	file    string
	problem *Problem
}

// fail notes a problem unless there is one already.
func (d *document) fail(line int, format string, args ...any) {
	if d.problem == nil {
		d.problem = &Problem{File: d.file, Line: line, Rule: fmt.Sprintf(format, args...)}
	}
}

// err is the problem as an error, nil when there is none.
func (d *document) err() error {
	if d.problem == nil {
		return nil
	}
	return d.problem
}

// mapping is a YAML mapping whose keys are texts, each there once.
type mapping struct {
	doc    *document
	line   int
	keys   []*yaml.Node
	values map[string]*yaml.Node
}

// open parses data, which must hold one document that is a mapping; an empty
// one is a mapping without keys.
func open(file string, data []byte) (*document, *mapping) {
	d := &document{file: file}
	if !utf8.Valid(data) {
		d.fail(1, "want UTF-8 text")
		return d, d.mapping(nil)
	}
	root, err := decode(data)
	switch {
	case err != nil:
		d.problem = syntaxProblem(file, err)
		return d, d.mapping(nil)
	case len(root) > 1:
		d.fail(root[1].Line, "want one document, here begins another")
		return d, d.mapping(nil)
	case len(root) == 0:
		return d, d.mapping(nil)
	}
	return d, d.mapping(root[0].Content[0])
}

// decode returns the first two documents of data.
func decode(data []byte) (docs []*yaml.Node, err error) {
	// The library has panicked on malformed documents before; a file of
	// the model must not take the agent down.
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, fmt.Errorf("yaml: parser panicked")
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for len(docs) < 2 {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case err == io.EOF:
			return docs, nil
		case err != nil:
			return nil, err
		}
		docs = append(docs, &doc)
	}
	return docs, nil
}

// mapping returns what node holds. nil, and null, have no keys.
func (d *document) mapping(node *yaml.Node) *mapping {
	m := &mapping{doc: d, line: 1, values: map[string]*yaml.Node{}}
	if node == nil {
		return m
	}
	m.line = node.Line
	if isNull(node) {
		return m
	}
	if node.Kind != yaml.MappingNode {
		d.fail(node.Line, "want a mapping (key: value), not %s", kindOf(node))
		return m
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.fail(key.Line, "want a text as key, not %s", kindOf(key))
			continue
		}
		if _, ok := m.values[key.Value]; ok {
			d.fail(key.Line, "%s: is there twice", keyName(key.Value))
			continue
		}
		m.keys = append(m.keys, key)
		m.values[key.Value] = value
	}
	return m
}

// only refuses every key that is not among those allowed.
func (m *mapping) only(allowed ...string) {
	for _, key := range m.keys {
		if !slices.Contains(allowed, key.Value) {
			m.doc.fail(key.Line, "%s: unknown key (want one of %s)", keyName(key.Value), strings.Join(allowed, ", "))
		}
	}
}

// get returns the key's value, nil when there is none or it is null.
func (m *mapping) get(key string) *yaml.Node {
	if node := m.values[key]; node != nil && !isNull(node) {
		return node
	}
	return nil
}

// lineOf is where a complaint about the key belongs: at its value, or at the
// mapping when it is missing.
func (m *mapping) lineOf(key string) int {
	if node := m.values[key]; node != nil {
		return node.Line
	}
	return m.line
}

// reject notes a problem with the value of a key.
func (m *mapping) reject(key, rule string) { m.doc.fail(m.lineOf(key), "%s: %s", key, rule) }

// text returns the key's text as it is written, so that an unquoted 2.10 stays
// one; empty when there is none.
func (m *mapping) text(key string) string {
	node := m.get(key)
	if node == nil {
		return ""
	}
	return m.doc.text(key, node)
}

// text returns what a scalar says; what is the name of it in a complaint.
func (d *document) text(what string, node *yaml.Node) string {
	switch {
	case node.Kind != yaml.ScalarNode || isNull(node):
		d.fail(node.Line, "%s: want a text, not %s", what, kindOf(node))
	case len(node.Value) > MaxText:
		d.fail(node.Line, "%s: want at most %d bytes", what, MaxText)
	case strings.ContainsFunc(node.Value, unicode.IsControl):
		d.fail(node.Line, "%s: want one line without control characters", what)
	default:
		return node.Value
	}
	return ""
}

// block returns the key's text of any number of lines, as it is written; empty
// when there is none.
func (m *mapping) block(key string, most int) string {
	node := m.get(key)
	switch {
	case node == nil:
	case node.Kind != yaml.ScalarNode:
		m.reject(key, "want a text, not "+kindOf(node))
	case len(node.Value) > most:
		m.reject(key, fmt.Sprintf("want at most %d bytes", most))
	case strings.ContainsFunc(node.Value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		m.reject(key, "want lines without control characters")
	default:
		return node.Value
	}
	return ""
}

// item is an element of a list, with the line that it stands on.
type item struct {
	text string
	line int
}

// texts returns the key's list of texts.
func (m *mapping) texts(key string) []item {
	var out []item
	for _, node := range m.list(key) {
		out = append(out, item{m.doc.text(key, node), node.Line})
	}
	return out
}

// list returns the nodes of the key's list.
func (m *mapping) list(key string) []*yaml.Node {
	node := m.get(key)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		m.reject(key, "want a list, not "+kindOf(node))
		return nil
	}
	return node.Content
}

// number returns the key's whole number, from 1, and whether there is one.
func (m *mapping) number(key string, most uint64) (uint64, bool) {
	node := m.get(key)
	if node == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(node.Value, 10, 64)
	if node.Kind != yaml.ScalarNode || err != nil || n < 1 || n > most {
		m.reject(key, fmt.Sprintf("want a whole number from 1 to %d", most))
		return 0, false
	}
	return n, true
}

// mapping returns the mapping under a key, nil when there is none.
func (m *mapping) mapping(key string) *mapping {
	node := m.get(key)
	if node == nil {
		return nil
	}
	return m.doc.mapping(node)
}

// pairs returns the texts under a key, by their own keys.
func (m *mapping) pairs(key string) map[string]string {
	sub := m.mapping(key)
	if sub == nil || len(sub.keys) == 0 {
		return nil
	}
	out := make(map[string]string, len(sub.keys))
	for _, k := range sub.keys {
		// A key is a text like any other.
		name := sub.doc.text(key, k)
		if name == "" {
			sub.doc.fail(k.Line, "%s: want keys that are not empty", key)
		}
		out[name] = sub.doc.text(key+": "+keyName(name), sub.values[k.Value])
	}
	return out
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// keyName makes a key of the file fit to stand in a message. Keys are repeated,
// so that a misspelt one is found; values never are.
func keyName(key string) string {
	const limit = 40
	if len(key) > limit {
		key = strings.ToValidUTF8(key[:limit], "") + "..."
	}
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(key)
	}
	return key
}

func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (write it out)"
	case yaml.ScalarNode:
		if isNull(node) {
			return "nothing"
		}
		return "a text"
	}
	return "that"
}
