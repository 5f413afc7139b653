package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the import path of the root module.
const root = "github.com/sutler-dev/sutler"

// pkg is one package: the files of one folder.
type pkg struct {
	// Path is the folder below the repository's root, "." for the root
	// itself. Import paths of this repository are shortened likewise, with
	// "./" in front: "./operator/process".
	Path string
	// Module is the folder of the module that the package belongs to.
	Module string
	Files  []file
}

// file is what the rules need to know of one source file.
type file struct {
	Name    string
	Test    bool
	Imports []string
	// Init says that the file declares a func init.
	Init bool
}

// local shortens the import path of a package of this repository to its
// folder, and leaves any other one alone.
func local(importPath string) string {
	switch rest, ok := strings.CutPrefix(importPath, root); {
	case !ok:
	case rest == "":
		return "./."
	case rest[0] == '/':
		return "." + rest
	}
	return importPath
}

// ownPath is the folder of a package of this repository.
func ownPath(imported string) (string, bool) { return strings.CutPrefix(imported, "./") }

// standard tells whether an import path is the standard library's.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// within tells whether a folder is dir or below it.
func within(folder, dir string) bool {
	return dir == "." || folder == dir || strings.HasPrefix(folder, dir+"/")
}

// parseFile reads what the rules need of one file.
func parseFile(name string, src []byte) (file, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f := file{Name: path.Base(name), Test: strings.HasSuffix(name, "_test.go")}
	for _, spec := range parsed.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.Imports = append(f.Imports, local(importPath))
	}
	for _, decl := range parsed.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			f.Init = true
		}
	}
	return f, nil
}

// tree is the whole repository.
type tree struct {
	Packages []pkg
	// Modules are the folders with a go.mod, and the parsed files.
	Modules map[string]modFile
}

// readTree reads the repository at dir. It passes by what the go command and
// scripts/modules pass by: testdata, hidden folders, and testbed/.
func readTree(t *testing.T, dir string) tree {
	t.Helper()
	result := tree{Modules: map[string]modFile{}}
	byPath := map[string]*pkg{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		base := entry.Name()
		switch {
		case entry.IsDir():
			if rel != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "testbed") {
				return fs.SkipDir
			}
		case base == "go.mod":
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			result.Modules[path.Dir(filepath.ToSlash(rel))] = parseMod(string(content))
		case strings.HasSuffix(base, ".go"):
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			f, err := parseFile(name, content)
			if err != nil {
				return err
			}
			folder := path.Dir(filepath.ToSlash(rel))
			if byPath[folder] == nil {
				byPath[folder] = &pkg{Path: folder}
			}
			byPath[folder].Files = append(byPath[folder].Files, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range byPath {
		p.Module = moduleOf(p.Path, result.Modules)
		result.Packages = append(result.Packages, *p)
	}
	slices.SortFunc(result.Packages, func(a, b pkg) int { return strings.Compare(a.Path, b.Path) })
	return result
}

// moduleOf is the nearest folder with a go.mod, from folder upwards.
func moduleOf(folder string, modules map[string]modFile) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, ok := modules[folder]; ok {
			return folder
		}
	}
	return "."
}

// modFile is what the rules need of a go.mod or a go.work.
type modFile struct {
	Module   string
	Go       string
	Direct   map[string]string // module path to version
	Indirect map[string]string
	Replace  map[string]string // module path to what stands for it
	Use      []string          // of a go.work
}

// parseMod reads a go.mod or go.work as the go command writes it: one directive
// a line, alone or in a block.
func parseMod(content string) modFile {
	m := modFile{Direct: map[string]string{}, Indirect: map[string]string{}, Replace: map[string]string{}}
	block := ""
	for line := range strings.Lines(content) {
		code, comment, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "module":
			m.Module = words[1]
		case "go":
			m.Go = words[1]
		case "use":
			m.Use = append(m.Use, path.Clean(words[1]))
		case "require":
			into := m.Direct
			if strings.TrimSpace(comment) == "indirect" {
				into = m.Indirect
			}
			into[words[1]] = words[len(words)-1]
		case "replace":
			m.Replace[words[1]] = words[len(words)-1]
		}
	}
	return m
}
