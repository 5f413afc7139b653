package main

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func readPages(t *testing.T) []page {
	t.Helper()
	all, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func exists(name string) bool {
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil
}

// destination is the path from the root that a link of a page leads to, and the anchor in
// it.
func destination(p page, target string) (file, fragment string) {
	file, fragment, _ = strings.Cut(target, "#")
	if file == "" {
		return p.path, fragment
	}
	return path.Join(path.Dir(p.path), file), fragment
}

// external tells whether a link leads out of the repository.
func external(target string) bool {
	u, err := url.Parse(target)
	return err == nil && u.Scheme != ""
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := readPages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	for _, p := range all {
		for _, l := range p.links() {
			if external(l.target) {
				if u, err := url.Parse(l.target); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
					t.Errorf("%s:%d: %q is no address", p.path, l.line, l.target)
				}
				continue
			}
			file, fragment := destination(p, l.target)
			if !exists(file) {
				t.Errorf("%s:%d: there is no %s", p.path, l.line, file)
				continue
			}
			if fragment != "" && !anchors[file][fragment] {
				t.Errorf("%s:%d: %s has no heading for #%s", p.path, l.line, file, fragment)
			}
		}
	}
}

// A path of this repository begins with one of its folders, or is that of a file there.
var repositoryPath = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+/?$|^[A-Za-z0-9_-]+\.(md|go)$`)

// notHere are spans that look like paths of this repository and are others'.
var notHere = []string{
	"docs.rs",
}

func TestPathsInCodeFontAreThere(t *testing.T) {
	found := 0
	for _, p := range readPages(t) {
		for _, s := range p.spans() {
			if !repositoryPath.MatchString(s.target) || slices.Contains(notHere, s.target) {
				continue
			}
			first, _, nested := strings.Cut(s.target, "/")
			if nested && !exists(first) {
				continue // a name on some machine, or of something else
			}
			// From the root, from the page's folder, or a folder's file that the
			// paragraph is about.
			beside := path.Join(path.Dir(p.path), s.target)
			symbol := strings.TrimSuffix(s.target, path.Ext(s.target)) // as in fakes/x.Name
			if !exists(s.target) && !exists(beside) && !(nested && exists(symbol)) && !anywhere(t, s.target, nested) {
				t.Errorf("%s:%d: there is no %s", p.path, s.line, s.target)
			}
			found++
		}
	}
	if found < 50 {
		t.Errorf("only %d paths were found: is this test still looking?", found)
	}
}

// anywhere finds a file that is named without its folder.
func anywhere(t *testing.T, name string, nested bool) bool {
	t.Helper()
	if nested {
		return false
	}
	found := false
	err := filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && skipped(d.Name()):
			return filepath.SkipDir
		case d.Name() == name:
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestEveryPageCanBeReached(t *testing.T) {
	all := readPages(t)
	byPath := map[string]page{}
	for _, p := range all {
		byPath[p.path] = p
	}
	reached := map[string]bool{}
	next := []string{"README.md"}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		if reached[name] {
			continue
		}
		reached[name] = true
		for _, l := range byPath[name].links() {
			if external(l.target) {
				continue
			}
			file, _ := destination(byPath[name], l.target)
			for _, candidate := range []string{file, path.Join(file, "README.md")} {
				if _, ok := byPath[candidate]; ok {
					next = append(next, candidate)
				}
			}
		}
	}
	for _, p := range all {
		if !reached[p.path] {
			t.Errorf("no links lead from README.md to %s", p.path)
		}
	}
}

func TestTheIndexHasEveryPageOfTheDocumentation(t *testing.T) {
	all := readPages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.path == "docs/README.md" })
	if i < 0 {
		t.Fatal("there is no docs/README.md")
	}
	linked := map[string]bool{"docs/README.md": true}
	for _, l := range all[i].links() {
		file, _ := destination(all[i], l.target)
		linked[file] = true
		linked[path.Join(file, "README.md")] = true
	}
	for _, p := range all {
		inDecisions := path.Dir(p.path) == "docs/decisions" // they have an index of their own
		if strings.HasPrefix(p.path, "docs/") && !inDecisions && !linked[p.path] {
			t.Errorf("docs/README.md has no link to %s", p.path)
		}
	}
}

func TestHeadingsBecomeAnchors(t *testing.T) {
	p, err := parsePage("x.md", []byte("# A page: its `code`, and more!\n## Words_that\n## Words_that\n```sh\n# none\n```\n#none\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a-page-its-code-and-more", "words_that", "words_that-1"} {
		if !p.anchors()[want] {
			t.Errorf("no anchor %s in %v", want, p.anchors())
		}
	}
	if len(p.anchors()) != 3 {
		t.Errorf("anchors: %v, want three", p.anchors())
	}
}

func TestEveryPictureIsShown(t *testing.T) {
	shown := map[string]bool{}
	for _, p := range readPages(t) {
		for _, l := range p.links() {
			file, _ := destination(p, l.target)
			shown[file] = true
		}
	}
	drawn, err := pictures(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) == 0 {
		t.Error("nothing is drawn")
	}
	for name := range drawn {
		if !shown[name] {
			t.Errorf("no page shows %s", name)
		}
	}
}
