package interfaces

import (
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// kind is what a line is.
type kind int

const (
	blank kind = iota
	comment
	// header begins a stanza that has options: iface and mapping.
	header
	// option belongs to the header above it.
	option
	// single is a stanza of one line.
	single
)

// line is one line of a file, as ifupdown sees it: with what a backslash at the
// end of a line joins to it.
type line struct {
	kind kind
	// raw is the text as it is in the file, line ends included.
	raw string
	// number is that of its first line, from 1.
	number int
	// words are what ifupdown sees of it, without the backslashes.
	words []string
	// rest is what follows the first word.
	rest string
}

// document is one file.
type document struct {
	name    string
	lines   []*line
	changed bool
}

// space is what separates words.
func space(r rune) bool { return strings.ContainsRune(" \t\r\v\f\n", r) }

// parse reads a file by ifupdown's rules, and refuses what ifupdown refuses.
func parse(f File) (*document, error) {
	d := &document{name: f.Name}
	physical := slices.Collect(strings.Lines(string(f.Data)))
	var under *line // the header to which options belong
	for i := 0; i < len(physical); {
		l := &line{number: i + 1}
		i += l.read(physical[i:])
		if err := d.classify(l, &under); err != nil {
			return nil, err
		}
		d.lines = append(d.lines, l)
	}
	return d, nil
}

// read takes one logical line, and returns of how many it is made.
func (l *line) read(physical []string) (n int) {
	if strings.HasPrefix(strings.TrimLeftFunc(physical[0], space), "#") {
		// A backslash at the end of a comment joins nothing.
		l.kind, l.raw = comment, physical[0]
		return 1
	}
	var raw, text strings.Builder
	for n < len(physical) {
		raw.WriteString(physical[n])
		part, joins := strings.CutSuffix(strings.TrimSuffix(physical[n], "\n"), `\`)
		text.WriteString(part)
		n++
		if !joins {
			break
		}
	}
	l.raw = raw.String()
	l.set(text.String())
	return n
}

func (l *line) set(text string) {
	l.words = strings.FieldsFunc(text, space)
	if len(l.words) > 0 {
		_, rest, _ := strings.Cut(text, l.words[0])
		l.rest = strings.TrimFunc(rest, space)
	}
}

// classify says what the line is by its first word.
func (d *document) classify(l *line, under **line) error {
	if l.kind == comment || len(l.words) == 0 {
		return nil
	}
	switch word := l.words[0]; {
	case word == "iface":
		l.kind, *under = header, l
		if len(l.words) < 3 {
			return plan.Invalid(d.name, l.number, "iface with too few words (want a name, a family and a method)")
		}
	case word == "mapping":
		l.kind, *under = header, l
	case word == "auto", word == "source", word == "source-directory", word == "no-auto-down", word == "no-scripts",
		word == "rename", strings.HasPrefix(word, "allow-") && len(word) > len("allow-"):
		l.kind, *under = single, nil
	case *under == nil:
		return plan.Invalid(d.name, l.number, "option %s outside of a stanza", plan.Quote(word))
	case (*under).words[0] == "mapping" && word != "script" && word != "map":
		return plan.Invalid(d.name, l.number, "option %s in a mapping (want script or map)", plan.Quote(word))
	case len(l.words) == 1 && (*under).words[0] == "iface":
		return plan.Invalid(d.name, l.number, "option %s without a value", plan.Quote(word))
	default:
		l.kind = option
	}
	return nil
}

// key is the name of an option; the tools take dashes and underscores for one.
func (l *line) key() string { return strings.ReplaceAll(l.words[0], "_", "-") }

// indent is the space before the first word.
func (l *line) indent() string {
	return l.raw[:len(l.raw)-len(strings.TrimLeft(l.raw, " \t"))]
}

// replace puts something in the place of a word.
func (l *line) replace(i int, with string) {
	if strings.Contains(strings.TrimSuffix(l.raw, "\n"), "\n") {
		// Where a word may be cut by a backslash, the line is written anew.
		words := slices.Clone(l.words)
		words[i] = with
		l.raw = l.indent() + strings.Join(words, " ") + "\n"
	} else {
		at := 0
		for n, word := range l.words {
			at += strings.Index(l.raw[at:], word)
			if n == i {
				l.raw = l.raw[:at] + with + l.raw[at+len(word):]
				break
			}
			at += len(word)
		}
	}
	l.set(strings.TrimSuffix(strings.TrimSuffix(l.raw, "\n"), `\`))
}

// newLine makes a line of text.
func newLine(k kind, text string) *line {
	l := &line{kind: k, raw: text + "\n"}
	l.set(text)
	return l
}

// encode returns the text of the file.
func (d *document) encode() []byte {
	var text strings.Builder
	for i, l := range d.lines {
		raw := l.raw
		if i < len(d.lines)-1 && l.kind != comment && l.joins() {
			// It was the last line, and would now join the next.
			raw = l.indent() + strings.Join(l.words, " ")
		}
		text.WriteString(raw)
		if i < len(d.lines)-1 && !strings.HasSuffix(raw, "\n") {
			text.WriteString("\n")
		}
	}
	return []byte(text.String())
}

// joins tells whether the line asks for one more.
func (l *line) joins() bool {
	lines := slices.Collect(strings.Lines(l.raw))
	return len(lines) > 0 && strings.HasSuffix(strings.TrimSuffix(lines[len(lines)-1], "\n"), `\`)
}

// stanza is an iface stanza: its header, and what follows up to the next stanza.
type stanza struct {
	doc    *document
	header *line
	// name is that of the interface, or of what others inherit.
	name string
	// family and method are empty when they are inherited.
	family, method string
	// inherits is the stanza that this one is based on; empty for none.
	inherits string
}

func newStanza(d *document, h *line) stanza {
	s := stanza{doc: d, header: h, name: h.words[1]}
	words := h.words[2:]
	if words[0] != "inherits" {
		s.family = words[0]
		if len(words) > 1 {
			s.method = words[1]
		}
	}
	if i := slices.Index(words, "inherits"); i >= 0 && i+1 < len(words) {
		s.inherits = words[i+1]
	}
	return s
}

// body returns where the stanza's own lines begin and end in the document.
func (s stanza) body() (from, to int) {
	from = slices.Index(s.doc.lines, s.header) + 1
	for to = from; to < len(s.doc.lines); to++ {
		if k := s.doc.lines[to].kind; k == header || k == single {
			break
		}
	}
	return from, to
}

// options returns the stanza's options.
func (s stanza) options() []*line {
	from, to := s.body()
	var found []*line
	for _, l := range s.doc.lines[from:to] {
		if l.kind == option {
			found = append(found, l)
		}
	}
	return found
}

// byName sorts stanzas by their names.
func byName(all []stanza) map[string][]stanza {
	named := make(map[string][]stanza)
	for _, s := range all {
		named[s.name] = append(named[s.name], s)
	}
	return named
}

// stanzas returns all iface stanzas of all files, in order.
func stanzas(docs []*document) []stanza {
	var found []stanza
	for _, d := range docs {
		for _, l := range d.lines {
			if l.kind == header && l.words[0] == "iface" {
				found = append(found, newStanza(d, l))
			}
		}
	}
	return found
}

// singles calls f for each stanza of one line.
func singles(docs []*document, f func(d *document, l *line) error) error {
	for _, d := range docs {
		for _, l := range slices.Clone(d.lines) {
			if l.kind == single {
				if err := f(d, l); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
