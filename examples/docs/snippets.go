package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// codeMarker is how the comment begins that stands before generated code:
//
//	<!-- code: examples/guides/embedding/step1_facade_test.go Example_facade -->
const codeMarker = "code: "

// refresh returns the page with its generated code as it should be.
func refresh(root string, p page) ([]byte, error) {
	lines := p.lines
	for _, b := range slices.Backward(p.blocks) { // so that the numbers of lines stay
		what, ok := strings.CutPrefix(b.marker, codeMarker)
		if !ok {
			continue
		}
		file, name, _ := strings.Cut(what, " ")
		code, err := declaration(filepath.Join(root, filepath.FromSlash(file)), name)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", p.path, b.line, err)
		}
		length := strings.Count(b.text, "\n")
		next := append([]string{}, lines[:b.line]...)
		next = append(next, strings.Split(strings.TrimRight(code, "\n"), "\n")...)
		lines = append(next, lines[b.line+length:]...)
	}
	return []byte(strings.Join(lines, "\n")), nil
}

// declaration returns the text of a top-level function, or of a type and its methods,
// without comments before them.
func declaration(file, name string) (string, error) {
	src, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, decl := range parsed.Decls {
		if declares(decl, name) {
			from, to := set.Position(decl.Pos()).Offset, set.Position(decl.End()).Offset
			parts = append(parts, string(src[from:to])+"\n")
		}
	}
	if len(parts) == 0 {
		return "", fmt.Errorf("%s declares no %q", filepath.Base(file), name)
	}
	return strings.Join(parts, "\n"), nil
}

// declares tells whether it is the function or type of that name, or a method of it.
func declares(decl ast.Decl, name string) bool {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name == name
		}
		receiver := d.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		of, ok := receiver.(*ast.Ident)
		return ok && of.Name == name
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
				return true
			}
		}
	}
	return false
}

// generatedFiles returns every file that holds something generated, as it should be, by
// its path from the root.
func generatedFiles(root string) (map[string][]byte, error) {
	out := map[string][]byte{}
	all, err := pages(root)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		for _, b := range p.blocks {
			if strings.HasPrefix(b.marker, codeMarker) {
				data, err := refresh(root, p)
				if err != nil {
					return nil, err
				}
				out[p.path] = data
				break
			}
		}
	}
	drawn, err := pictures(root)
	maps.Copy(out, drawn)
	return out, err
}

// outdated returns those of the files that are not on the disk as they should be.
func outdated(root string, files map[string][]byte) ([]string, error) {
	var out []string
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err != nil || !bytes.Equal(got, want) {
			out = append(out, name)
		}
	}
	return out, nil
}
