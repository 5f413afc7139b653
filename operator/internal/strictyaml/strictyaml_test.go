package strictyaml_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/operator/internal/strictyaml"
)

func TestLoadReturnsThePairsInTheirOrder(t *testing.T) {
	pairs, err := strictyaml.Load("f", []byte("b: 1\na: [x]\n\"c\":\n"))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, p := range pairs {
		keys = append(keys, p.Key.Value)
	}
	if got := strings.Join(keys, " "); got != "b a c" {
		t.Errorf("keys %s", got)
	}
	for _, empty := range []string{"", "\n", "# x\n", "---\n", "~", "null\n", "{}\n"} {
		if pairs, err := strictyaml.Load("f", []byte(empty)); len(pairs) != 0 || err != nil {
			t.Errorf("%q: %v, %v", empty, pairs, err)
		}
	}
}

func TestTextIsWhatIsWritten(t *testing.T) {
	for in, want := range map[string]string{
		"12": "12", "0x1F": "0x1F", "true": "true", "'true'": "true", "2020-01-02": "2020-01-02", "1e3": "1e3",
		"~": "", "": "", "null": "", "'null'": "null", `"a\nb"`: "a\nb", "|\n  a\n  b\n": "a\nb\n",
	} {
		pairs, err := strictyaml.Load("f", []byte("k: "+in))
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if got, ok := strictyaml.Text(pairs[0].Value); got != want || !ok {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{"[]", "{}", "[a]"} {
		pairs, err := strictyaml.Load("f", []byte("k: "+in))
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if _, ok := strictyaml.Text(pairs[0].Value); ok {
			t.Errorf("%q is text", in)
		}
	}
}

// TestAliasBombIsRefused is a document that stands for a billion values.
func TestAliasBombIsRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 10; i++ {
		prev := "*a" + string(rune('0'+i-1))
		b.WriteString("a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(prev+", ", 9) + prev + "]\n")
	}
	_, err := strictyaml.Load("f", []byte(b.String()))
	if !errors.Is(err, errors.NotValid) || err.Error() != "f line 1 (anchors and aliases are not taken) not valid" {
		t.Errorf("Load = %v", err)
	}
}

// TestTextNodeIsReadAsTextByEveryReader holds the form, since YAML 1.1, which
// agents in the field read with, sees more than text where 1.2 does not.
func TestTextNodeIsReadAsTextByEveryReader(t *testing.T) {
	for s, style := range map[string]yaml.Style{
		"a": 0, "a-b": 0, "/var/lib": 0, "10.0.0.1:17070": 0, "2.9.49": 0, "user-admin:bootstrap": 0,
		"a\nb": yaml.LiteralStyle, "a b\nc\n": yaml.LiteralStyle,
		"": yaml.DoubleQuotedStyle, "y": yaml.DoubleQuotedStyle, "No": yaml.DoubleQuotedStyle, "off": yaml.DoubleQuotedStyle,
		"null": yaml.DoubleQuotedStyle, "12:30": yaml.DoubleQuotedStyle, "1:20.5": yaml.DoubleQuotedStyle, "a:": yaml.DoubleQuotedStyle,
		"a b": yaml.DoubleQuotedStyle, " a\nb": yaml.DoubleQuotedStyle, "a\n\nb": yaml.DoubleQuotedStyle, "a\n": yaml.LiteralStyle,
		"a\r\nb": yaml.DoubleQuotedStyle, "a\n\tb": yaml.DoubleQuotedStyle, "é": yaml.DoubleQuotedStyle, "-a": yaml.DoubleQuotedStyle,
	} {
		if n := strictyaml.TextNode(s); n.Style != style || n.Value != s {
			t.Errorf("%q has style %v, want %v", s, n.Style, style)
		}
	}
}

func TestEncodeDropsTheEncodersError(t *testing.T) {
	bad := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "canary\xff"}
	for name, pairs := range map[string][]*yaml.Node{
		"half a pair": {strictyaml.TextNode("canary"), {Kind: 77, Value: "canary"}},
		"no text":     {strictyaml.TextNode("canary"), bad},
		"too large":   {strictyaml.TextNode("canary"), strictyaml.TextNode(strings.Repeat("canary", strictyaml.MaxSize/6))},
		"with quotes": {strictyaml.TextNode("canary"), strictyaml.TextNode(strings.Repeat("\n", strictyaml.MaxSize*3/5))},
	} {
		out, err := strictyaml.Encode("f", pairs)
		if out != nil || !errors.Is(err, errors.NotValid) || strings.Contains(errors.ErrorStack(err), "canary") {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
}

func TestNormaliseKeepsWhatIsSaid(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("# head\na: 'x' # line\n'b': {c: [\"1\", 1, ~, 2020-01-02, yes, 'no'], d: {}}\n# foot\n"), &doc); err != nil {
		t.Fatal(err)
	}
	mapping := doc.Content[0]
	strictyaml.Normalise(mapping)
	out, err := strictyaml.Encode("f", mapping.Content)
	if err != nil {
		t.Fatal(err)
	}
	const want = "a: x\nb:\n  c:\n    - \"1\"\n    - 1\n    - ~\n    - 2020-01-02\n    - yes\n    - \"no\"\n  d: {}\n"
	if string(out) != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
}
