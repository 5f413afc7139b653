package draw_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/docs/internal/draw"
)

const sequence = `sequence One & two
actor A first
actor B second
# nobody sees this
A -> B: a < b
note A: one
note A B: both
note: all
frame if so
B --> A: yes
else otherwise: no
crash: again
end
`

const states = `states A life
state born 0 0: small
state grown 1 0: tall
state gone 1 1 end: nothing
born -> grown bend 20 at 0.3: years
grown -> gone
`

func TestPicturesAreWellFormedAndSayEverything(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"sequence": {sequence, []string{"One & two", "first", "second", "a < b", "one", "both", "all", "if so", "yes", "otherwise: no", "Crash here: again"}},
		"states":   {states, []string{"A life", "born", "small", "grown", "tall", "gone", "nothing", "years"}},
	} {
		svg, err := draw.SVG(name, c.text)
		if err != nil {
			t.Fatal(err)
		}
		said := text(t, svg)
		for _, want := range c.says {
			if !strings.Contains(said, want+"\n") {
				t.Errorf("%s: %q is not said in\n%s", name, want, said)
			}
		}
		if strings.Contains(said, "nobody") {
			t.Errorf("%s: a comment is drawn", name)
		}
		again, err := draw.SVG(name, c.text)
		if err != nil || !bytes.Equal(svg, again) {
			t.Errorf("%s: drawn twice it is not the same: %v", name, err)
		}
		if !bytes.Contains(svg, []byte(`fill="#ffffff"`)) {
			t.Errorf("%s: there is no white ground, for dark pages", name)
		}
	}
}

func TestMistakesAreNamedWithTheirLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"kind":            {"cake", `x: picture of "cake" not valid`},
		"one actor":       {"sequence t\nactor A a\n", "x: line 1: fewer than two actors not valid"},
		"nameless actor":  {"sequence t\nactor A\n", "x: line 2: an actor without a name not valid"},
		"unknown actor":   {"sequence t\nactor A a\nactor B b\nA -> C: x\n", "x: line 4: a message between actors that are not there not valid"},
		"no message":      {"sequence t\nactor A a\nactor B b\nA B\n", "x: line 4: no message not valid"},
		"open frame":      {"sequence t\nactor A a\nactor B b\nframe x\n", "x: line 4: a frame without an end not valid"},
		"end too early":   {"sequence t\nactor A a\nactor B b\nend\n", "x: line 4: end without a frame not valid"},
		"else too early":  {"sequence t\nactor A a\nactor B b\nelse\n", "x: line 4: else without a frame not valid"},
		"note for nobody": {"sequence t\nactor A a\nactor B b\nnote C: x\n", "x: line 4: a note for an actor that is not there not valid"},
		"no place":        {"states t\nstate a 0\n", "x: line 2: a state without a place not valid"},
		"bad place":       {"states t\nstate a 0 b\n", "x: line 2: a place that is no number not valid"},
		"no way":          {"states t\nstate a 0 0\na b\n", "x: line 3: neither a state nor a way between two not valid"},
		"unknown state":   {"states t\nstate a 0 0\na -> b\n", "x: line 3: a way between states that are not there not valid"},
		"half an option":  {"states t\nstate a 0 0\nstate b 1 0\na -> b bend\n", "x: line 4: an option without a number not valid"},
		"bad option":      {"states t\nstate a 0 0\nstate b 1 0\na -> b bend x\n", "x: line 4: an option that is no number not valid"},
		"unknown option":  {"states t\nstate a 0 0\nstate b 1 0\na -> b turn 3\n", "x: line 4: an option that is not known not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := draw.SVG("x", c.text)
			if err == nil || err.Error() != c.want || !errors.Is(err, errors.NotValid) {
				t.Errorf("err = %v, want %s", err, c.want)
			}
		})
	}
}

// text returns what an SVG says, a line for each piece.
func text(t *testing.T, svg []byte) string {
	t.Helper()
	var out strings.Builder
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			out.WriteString(string(data) + "\n")
		}
	}
}
