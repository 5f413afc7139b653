package imports

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// top is the repository's root as a test of this package sees it.
const top = "../.."

func TestRepositoryHoldsTheRules(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(top, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	repository := readTree(t, top)
	for _, v := range check(repository, parseMod(string(content))) {
		t.Error(v)
	}

	// A walk that found nothing would find nothing wrong.
	for _, folder := range []string{".", "facade", "operator", "provisioner", "internal/imports"} {
		if !slices.ContainsFunc(repository.Packages, func(p pkg) bool { return p.Path == folder && p.Module == "." }) {
			t.Errorf("package %s was not looked at", folder)
		}
	}
}

func TestEveryRuleHasItsReason(t *testing.T) {
	for _, a := range arrows {
		if a.From == "" || a.Why == "" {
			t.Errorf("arrow from %q: no reason", a.From)
		}
	}
	for _, b := range bans {
		if b.Import == "" || b.Why == "" {
			t.Errorf("ban of %q: no reason", b.Import)
		}
	}
}

// sound is a small repository in which nothing is wrong.
func sound() (tree, modFile) {
	src := func(imports ...string) []file { return []file{{Name: "a.go", Imports: imports}} }
	t := tree{
		Packages: []pkg{
			{Path: ".", Module: ".", Files: src()},
			{Path: "facade", Module: ".", Files: src("context", juErrors, juWorker)},
			{Path: "operator", Module: ".", Files: src("./facade", juErrors, yaml)},
			{Path: "operator/managertest", Module: ".", Files: src("testing", "./operator")},
			{Path: "operator/process", Module: ".", Files: src("os/exec", "./operator", "./operator/agentconf")},
			{Path: "provisioner", Module: ".", Files: src("log/slog", "./internal/keyqueue", juWorker+"/catacomb")},
			{Path: "fakes", Module: ".", Files: src("./operator", "./facade")},
			{Path: "internal/keyqueue", Module: ".", Files: src("container/list")},
			{Path: "examples/agent", Module: "examples", Files: src("net/http", "./provisioner", "./examples/controller", "github.com/fsnotify/fsnotify")},
		},
		Modules: map[string]modFile{
			".": {Module: root, Go: "1.26.0",
				Direct:   map[string]string{juErrors: "v1", juRetry: "v1", juClock: "v1", juWorker: "v3", yaml: "v3"},
				Indirect: map[string]string{"github.com/juju/collections": "v0", "golang.org/x/net": "v0", "gopkg.in/tomb.v2": "v2"}},
			"examples": {Module: root + "/examples", Go: "1.26.0",
				Direct:  map[string]string{root: "v0.0.0", "github.com/fsnotify/fsnotify": "v1"},
				Replace: map[string]string{root: "../"}},
		},
	}
	return t, modFile{Go: "1.26.0", Use: []string{".", "examples"}}
}

func TestSoundRepositoryHasNoViolation(t *testing.T) {
	if got := check(sound()); len(got) != 0 {
		t.Errorf("violations in a sound repository: %q", got)
	}
}

// TestForbiddenIsCaught breaks one rule at a time in the sound repository: a
// checker that lets everything pass would pass every other test here.
func TestForbiddenIsCaught(t *testing.T) {
	importing := func(from, name string, imports ...string) func(*tree, *modFile) {
		return func(repository *tree, _ *modFile) {
			f := file{Name: name, Test: strings.HasSuffix(name, "_test.go"), Imports: imports}
			for i, p := range repository.Packages {
				if p.Path == from {
					repository.Packages[i].Files = append(p.Files, f)
					return
				}
			}
			repository.Packages = append(repository.Packages, pkg{Path: from, Module: ".", Files: []file{f}})
		}
	}
	module := func(folder string, change func(*modFile)) func(*tree, *modFile) {
		return func(repository *tree, _ *modFile) {
			m := repository.Modules[folder]
			change(&m)
			repository.Modules[folder] = m
		}
	}
	workspace := func(use ...string) func(*tree, *modFile) {
		return func(_ *tree, work *modFile) { work.Use = use }
	}

	tests := []struct {
		what  string
		do    func(*tree, *modFile)
		wants string // in the one violation
	}{
		{"facade knows operator", importing("facade", "b.go", "./operator"), "facade/b.go imports operator"},
		{"facade knows a batcher", importing("facade", "b.go", "./internal/batch"), "facade/b.go imports internal/batch"},
		{"operator knows agentconf", importing("operator", "b.go", "./operator/agentconf"), "operator/b.go imports operator/agentconf"},
		{"agentconf knows operator", importing("operator/agentconf", "b.go", "./operator"), "operator/agentconf/b.go imports operator"},
		{"suite knows the fakes", importing("operator/managertest", "b.go", "./fakes"), "operator/managertest/b.go imports fakes"},
		{"worker knows the fakes", importing("provisioner", "b.go", "./fakes"), "provisioner/b.go imports fakes"},
		{"worker knows a back end", importing("provisioner", "b.go", "./operator/process"), "provisioner/b.go imports operator/process"},
		{"fakes know the worker", importing("fakes", "b.go", "./provisioner"), "fakes/b.go imports provisioner"},
		{"adapter knows the worker", importing("operator/process", "b.go", "./provisioner"), "operator/process/b.go imports provisioner"},
		{"queue knows the facade", importing("internal/keyqueue", "b.go", "./facade"), "internal/keyqueue/b.go imports facade"},
		{"worker knows an example", importing("provisioner", "b.go", "./examples/agent"), "examples"},
		{"test knows an example", importing("provisioner", "b_test.go", "./examples/agent"), "provisioner/b_test.go imports examples/agent"},
		{"worker knows a benchmark", importing("provisioner", "b_test.go", "./bench"), "provisioner/b_test.go imports bench"},
		{"package that nobody thought about", importing("surprise", "a.go"), "package surprise is not in the table"},

		{"sixth library", importing("provisioner", "b.go", "github.com/google/uuid"), "imports github.com/google/uuid"},
		{"sixth library in a test", importing("provisioner", "b_test.go", "github.com/google/go-cmp/cmp"), "imports github.com/google/go-cmp/cmp"},
		{"library where it has no business", importing("facade", "b.go", yaml), "facade/b.go imports gopkg.in/yaml.v3"},
		{"module whose name begins like an allowed one", importing("facade", "b.go", juErrors+"x"), "juju/errorsx"},
		{"testing in code", importing("fakes", "b.go", "testing"), "fakes/b.go imports testing"},
		{"below testing in code", importing("fakes", "b.go", "testing/synctest"), "fakes/b.go imports testing/synctest"},
		{"http in code", importing("provisioner", "b.go", "net/http"), "provisioner/b.go imports net/http"},
		{"below http in code", importing("provisioner", "b.go", "net/http/pprof"), "provisioner/b.go imports net/http/pprof"},
		{"programs started elsewhere", importing("provisioner", "b.go", "os/exec"), "provisioner/b.go imports os/exec"},
		{"global logger", importing("provisioner", "b.go", "log"), "provisioner/b.go imports log"},
		{"init", func(repository *tree, _ *modFile) { repository.Packages[0].Files[0].Init = true }, "./a.go has a func init"},

		{"requirement added", module(".", func(m *modFile) { m.Direct["example.com/x"] = "v1" }), "go.mod requires"},
		{"requirement missing", module(".", func(m *modFile) { delete(m.Direct, juRetry) }), "go.mod requires"},
		{"more compiled", module(".", func(m *modFile) { m.Indirect["example.com/x"] = "v1" }), "go.mod requires indirectly"},
		{"root replaces", module(".", func(m *modFile) { m.Replace = map[string]string{yaml: "../yaml"} }), "go.mod replaces"},
		{"root renamed", module(".", func(m *modFile) { m.Module = "example.com/x" }), "the root module is called"},
		{"nested without replace", module("examples", func(m *modFile) { m.Replace = nil }), "examples/go.mod requires " + root},
		{"nested with a replace that leads elsewhere", module("examples", func(m *modFile) { m.Replace = map[string]string{root: "../.."} }), "want the way to ."},
		{"nested misnamed", module("examples", func(m *modFile) { m.Module = root + "/example" }), "examples/go.mod says module"},
		{"nested with another Go", module("examples", func(m *modFile) { m.Go = "1.25.0" }), "examples/go.mod says go 1.25.0"},
		{"nested not in the workspace", workspace("."), "go.work does not use examples"},
		{"workspace with a module that is not there", workspace(".", "examples", "bench"), "go.work uses bench"},
	}
	for _, tc := range tests {
		t.Run(tc.what, func(t *testing.T) {
			repository, work := sound()
			tc.do(&repository, &work)
			got := check(repository, work)
			if !slices.ContainsFunc(got, func(v violation) bool { return strings.Contains(string(v), tc.wants) }) {
				t.Errorf("no violation with %q in %q", tc.wants, got)
			}
			for _, v := range got {
				if !strings.Contains(string(v), "\n\tbecause ") {
					t.Errorf("violation without a reason: %q", v)
				}
			}
		})
	}
}

func TestTestsMayUseWhatTheyTest(t *testing.T) {
	repository, work := sound()
	repository.Packages = append(repository.Packages, pkg{Path: "operator/agentconf", Module: ".", Files: []file{
		{Name: "a_test.go", Test: true, Imports: []string{"testing", "net/http/httptest", "./fakes", "./provisioner", juErrors}},
	}})
	if got := check(repository, work); len(got) != 0 {
		t.Errorf("violations: %q", got)
	}
}

func TestFileIsReadWithItsBuildTags(t *testing.T) {
	const src = `//go:build windows

package x

import (
	"context"
	alias "github.com/sutler-dev/sutler/facade"
	_ "github.com/sutler-dev/sutler"
	"github.com/sutler-dev/sutlery"
)

type T struct{}

func (T) init() {}
func init()     {}
`
	f, err := parseFile("dir/x_windows_test.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"context", "./facade", "./.", "github.com/sutler-dev/sutlery"}
	if f.Name != "x_windows_test.go" || !f.Test || !f.Init || !slices.Equal(f.Imports, want) {
		t.Errorf("got %+v", f)
	}
	if f, err = parseFile("y.go", []byte("package y\n\ntype T struct{}\n\nfunc (T) init() {}\n")); err != nil || f.Init || f.Test {
		t.Errorf("a method called init: %+v, %v", f, err)
	}
}

func TestModFileIsReadInEveryForm(t *testing.T) {
	m := parseMod(`module example.com/m // a remark

go 1.26.0

require example.com/one v1.0.0

require (
	example.com/two v2.0.0 // a remark
	example.com/three v3.0.0 // indirect
)

replace example.com/one => ../one

replace (
	example.com/two v2.0.0 => ../../two
	example.com/three => example.com/fork v3.0.1
)

use ./a/
`)
	if m.Module != "example.com/m" || m.Go != "1.26.0" || !slices.Equal(m.Use, []string{"a"}) {
		t.Errorf("got %+v", m)
	}
	for _, tc := range []struct{ got, want map[string]string }{
		{m.Direct, map[string]string{"example.com/one": "v1.0.0", "example.com/two": "v2.0.0"}},
		{m.Indirect, map[string]string{"example.com/three": "v3.0.0"}},
		{m.Replace, map[string]string{"example.com/one": "../one", "example.com/two": "../../two", "example.com/three": "v3.0.1"}},
	} {
		if !maps.Equal(tc.got, tc.want) {
			t.Errorf("got %v, want %v", tc.got, tc.want)
		}
	}
}
