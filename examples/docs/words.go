package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// words are what a package says to whoever runs an agent.
type words struct {
	// constants are values of the exported types given, and of constants that
	// begin with "state".
	constants []word
	// keys are those of reports.
	keys []word
	// messages are those logged at a level above debug, and attributes what is
	// logged with them.
	messages, attributes []word
	// statuses are pieces of what users are told of applications and containers.
	statuses []word
}

// word is one of them, and where it is said.
type word struct{ text, at string }

// words collects what the Go files of a folder say; tests do not count.
func collect(root, folder string, types ...string) (words, error) {
	set := token.NewFileSet()
	noTests := func(info fs.FileInfo) bool { return !strings.HasSuffix(info.Name(), "_test.go") }
	var out words
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return words{}, err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return words{}, err
		}
		if !noTests(info) {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return words{}, err
		}
		c := collector{set: set, out: &out, types: types}
		for _, decl := range file.Decls {
			c.declaration(decl)
		}
	}
	return out, nil
}

type collector struct {
	set   *token.FileSet
	out   *words
	types []string
}

func (c *collector) word(at ast.Node, text string) word {
	return word{text, filepath.ToSlash(strings.TrimPrefix(c.set.Position(at.Pos()).String(), "../../"))}
}

func (c *collector) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.GenDecl:
		if d.Tok == token.CONST {
			c.consts(d)
		}
	case *ast.FuncDecl:
		if d.Body != nil {
			c.function(d)
		}
	}
}

func (c *collector) consts(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		s, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		typ, _ := s.Type.(*ast.Ident)
		for i, name := range s.Names {
			if i >= len(s.Values) {
				continue
			}
			wanted := typ != nil && slices.Contains(c.types, typ.Name) || strings.HasPrefix(strings.ToLower(name.Name), "state")
			if text, ok := literal(s.Values[i]); ok && wanted {
				c.out.constants = append(c.out.constants, c.word(s, text))
			}
		}
	}
}

// function collects what one function says.
func (c *collector) function(d *ast.FuncDecl) {
	assigned := assignments(d.Body)
	// What a function that makes statuses formats, is said to users.
	status := slices.Contains([]string{"tell", "statusOf", "refuse", "backend", "skip", "asked"}, d.Name.Name)
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			c.composite(n)
		case *ast.IndexExpr:
			if key, ok := literal(n.Index); ok {
				c.out.keys = append(c.out.keys, c.word(n, key))
			}
		case *ast.CallExpr:
			c.call(n, assigned)
			if status && called(n) == "Sprintf" || called(n) == "await" {
				c.format(n)
			}
		}
		return true
	})
}

// composite collects the keys of a map[string]any, and the messages in a said, a
// result and a ContainerStatus.
func (c *collector) composite(n *ast.CompositeLit) {
	if m, ok := n.Type.(*ast.MapType); ok {
		if value, ok := m.Value.(*ast.Ident); ok && value.Name == "any" {
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := literal(kv.Key); ok {
						c.out.keys = append(c.out.keys, c.word(kv, key))
					}
				}
			}
		}
	}
	if t, ok := n.Type.(*ast.Ident); ok && (t.Name == "said" || t.Name == "result") {
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				e = kv.Value
			}
			ast.Inspect(e, func(e ast.Node) bool {
				if text, ok := literal(e); ok {
					c.pieces(e, text)
				}
				return true
			})
		}
	}
}

var verb = regexp.MustCompile(`%[+#]?[a-z]`)

// format collects the pieces of a format between its verbs.
func (c *collector) format(call *ast.CallExpr) {
	if text, ok := literal(call.Args[0]); ok {
		c.pieces(call, text)
	}
}

func (c *collector) pieces(at ast.Node, text string) {
	for _, piece := range verb.Split(text, -1) {
		piece = strings.Trim(piece, " :;,()")
		if len(piece) > 5 {
			c.out.statuses = append(c.out.statuses, c.word(at, piece))
		}
	}
}

// logs tells whether a call of that name logs. Debug ones are left out, since nobody is
// told to look for them.
func logs(name string) bool {
	switch name {
	case "Info", "Warn", "Error", "InfoContext", "WarnContext", "ErrorContext", "Log", "LogAttrs", "log":
		return true
	}
	return false
}

func (c *collector) call(n *ast.CallExpr, assigned map[string][]ast.Expr) {
	name := called(n)
	if slices.Contains([]string{"String", "Int", "Duration", "Any", "Bool", "Time"}, name) && receiver(n) == "slog" {
		if key, ok := literal(n.Args[0]); ok {
			c.out.attributes = append(c.out.attributes, c.word(n, key))
		}
	}
	if !logs(name) || mentions(n, "LevelDebug") {
		return
	}
	for i, arg := range n.Args {
		texts := resolve(arg, assigned)
		if len(texts) == 0 {
			continue
		}
		for _, text := range texts {
			if text != "pass done" { // at debug only
				c.out.messages = append(c.out.messages, c.word(n, text))
			}
		}
		for j := i + 1; j < len(n.Args); j += 2 {
			if key, ok := literal(n.Args[j]); ok {
				c.out.attributes = append(c.out.attributes, c.word(n, key))
			}
		}
		return
	}
}

// resolve returns the text of a literal, the beginning of a sum, or every text that
// a variable is given in the function.
func resolve(e ast.Expr, assigned map[string][]ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, ok := literal(e); ok {
			return []string{text}
		}
	case *ast.BinaryExpr:
		return resolve(e.X, nil)
	case *ast.Ident:
		var out []string
		for _, value := range assigned[e.Name] {
			out = append(out, resolve(value, nil)...)
		}
		return out
	}
	return nil
}

// assignments are the values that each variable is given.
func assignments(body *ast.BlockStmt) map[string][]ast.Expr {
	out := map[string][]ast.Expr{}
	ast.Inspect(body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i, left := range a.Lhs {
			if id, ok := left.(*ast.Ident); ok {
				out[id.Name] = append(out[id.Name], a.Rhs[i])
			}
		}
		return true
	})
	return out
}

func called(n *ast.CallExpr) string {
	switch f := n.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

func receiver(n *ast.CallExpr) string {
	if f, ok := n.Fun.(*ast.SelectorExpr); ok {
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name
		}
	}
	return ""
}

func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == name
		return !found
	})
	return found
}

func literal(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}
