package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// Blocks of Go that are in these pages are held by the tests of examples/guides.
var inGuides = regexp.MustCompile(`^docs/write-your-own-`)

func TestBlocksAreOfAKnownKind(t *testing.T) {
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			switch b.language {
			case "go", "sh", "console", "text", "mermaid":
			case "yaml":
				var v any
				if err := yaml.Unmarshal([]byte(b.text), &v); err != nil {
					t.Errorf("%s:%d: %v", p.path, b.line, err)
				}
			case "json":
				if !json.Valid([]byte(b.text)) {
					t.Errorf("%s:%d: this is no JSON", p.path, b.line)
				}
			case "promql":
				// Held by the tests of the alerts.
			default:
				t.Errorf("%s:%d: a block of %q is none that this test knows", p.path, b.line, b.language)
			}
		}
	}
}

// A block that is indented would be seen by no test.
func TestBlocksAreFenced(t *testing.T) {
	for _, p := range readPages(t) {
		for _, n := range p.numbered() {
			before, blank := p.loose[n-1]
			if strings.HasPrefix(p.loose[n], "    ") && blank && before == "" {
				t.Errorf("%s:%d: this block is indented and not fenced", p.path, n)
			}
		}
	}
}

func TestGoInEveryPageIsCompiled(t *testing.T) {
	compiled := unindented(allGo(t, "../guides"))
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if strings.HasPrefix(b.marker, codeMarker) {
				continue // held to the code by another test
			}
			if b.language == "go" && !inGuides.MatchString(p.path) && !strings.Contains(compiled, unindented(b.text)) {
				t.Errorf("%s:%d: this stands nowhere in examples/guides:\n%s", p.path, b.line, b.text)
			}
		}
	}
}

// allGo is all Go below a folder.
func allGo(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
			return err
		}
		data, err := os.ReadFile(name)
		all.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// unindented has every line begin at its first letter.
func unindented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.TrimLeft(line, " \t"))
	}
	return out.String()
}
