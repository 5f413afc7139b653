package guides_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/operator"
)

const docs = "../../docs"

// snippet is a fenced block of a guide.
type snippet struct {
	line     int // of the opening fence
	language string
	text     string
}

func snippets(text string) ([]snippet, error) {
	var out []snippet
	var open *snippet
	number := 0
	for line := range strings.Lines(text) {
		number++
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && isFence:
			open = &snippet{line: number, language: strings.TrimSpace(fence)}
		case isFence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	if open != nil {
		return nil, fmt.Errorf("the block that begins in line %d has no end", open.line)
	}
	return out, nil
}

// code is all Go of this package.
func code(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

func guide(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(docs, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGoInTheGuidesIsCompiled(t *testing.T) {
	compiled := code(t)
	for _, file := range []string{"write-your-own-facade.md", "write-your-own-manager.md", "write-your-own-back-end.md"} {
		blocks, err := snippets(guide(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		found := 0
		for _, s := range blocks {
			switch s.language {
			case "go":
			case "text", "sh":
				continue
			default:
				t.Errorf("%s:%d: a block of %q is none that this test knows", file, s.line, s.language)
				continue
			}
			found++
			if !strings.Contains(compiled, s.text) {
				t.Errorf("%s:%d: this stands nowhere in the package:\n%s", file, s.line, s.text)
			}
		}
		if found == 0 {
			t.Errorf("%s has no Go", file)
		}
	}
}

// A method that is added to an interface has to be explained.
func TestGuidesShowEveryMethod(t *testing.T) {
	for file, types := range map[string][]reflect.Type{
		"write-your-own-facade.md": {
			reflect.TypeFor[facade.Applications](), reflect.TypeFor[facade.BulkApplications](),
			reflect.TypeFor[facade.ProvisioningWatcher](), reflect.TypeFor[facade.StatusSetter](),
		},
		"write-your-own-manager.md": {
			reflect.TypeFor[operator.Manager](), reflect.TypeFor[operator.Watcher](),
			reflect.TypeFor[operator.Lister](), reflect.TypeFor[operator.Stager](), reflect.TypeFor[operator.Glancer](),
		},
		"write-your-own-back-end.md": {
			reflect.TypeFor[container.Initialiser](), reflect.TypeFor[container.Broker](),
		},
	} {
		text := guide(t, file)
		for _, typ := range types {
			for i := range typ.NumMethod() {
				if name := typ.Method(i).Name; !strings.Contains(text, name) {
					t.Errorf("%s says nothing of %s.%s", file, typ.Name(), name)
				}
			}
		}
	}
}

func TestSnippetsAreFound(t *testing.T) {
	got, err := snippets("a\n```go\nx\n\ty\n```\nb\n```sh\n```\n")
	want := []snippet{{2, "go", "x\n\ty\n"}, {7, "sh", ""}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("snippets = %v, %v, want %v", got, err, want)
	}
	if _, err := snippets("```go\nx\n"); err == nil {
		t.Error("a block without an end is taken")
	}
}
