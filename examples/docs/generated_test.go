package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestWhatIsGeneratedIsUpToDate(t *testing.T) {
	files, err := generatedFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Error("nothing is generated")
	}
	names, err := outdated(root, files)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 0 {
		t.Errorf("not up to date, in examples say go run ./docs: %q", names)
	}
}

func TestOldCodeInAPageIsReplaced(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a_test.go", "package a\n\n// not shown\nfunc Example_one() {\n\t// shown\n}\n\ntype two struct{ a int }\n")
	write(t, dir, "page.md", "a\n<!-- code: a_test.go Example_one -->\n```go\nold\nmore\n```\nb\n<!-- code: a_test.go two -->\n```go\n```\nc\n")
	files, err := generatedFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	const want = "a\n<!-- code: a_test.go Example_one -->\n```go\nfunc Example_one() {\n\t// shown\n}\n```\nb\n" +
		"<!-- code: a_test.go two -->\n```go\ntype two struct{ a int }\n```\nc\n"
	if got := string(files["page.md"]); got != want {
		t.Errorf("generated:\n%s\nwant:\n%s", got, want)
	}
	if names, err := outdated(dir, files); err != nil || !slices.Equal(names, []string{"page.md"}) {
		t.Errorf("outdated = %q, %v", names, err)
	}
	write(t, dir, "page.md", want)
	if names, err := outdated(dir, files); err != nil || len(names) > 0 {
		t.Errorf("outdated = %q, %v, after it was written", names, err)
	}
}

func TestCodeThatIsNotThereIsAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.go", "package a\n")
	write(t, dir, "page.md", "<!-- code: a.go missing -->\n```go\n```\n")
	if _, err := generatedFiles(dir); err == nil || !strings.Contains(err.Error(), "page.md:2") {
		t.Errorf("err = %v, want one that names the line", err)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
