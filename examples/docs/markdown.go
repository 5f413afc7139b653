package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// page is a Markdown file of the repository.
type page struct {
	path  string // from the root of the repository, with slashes
	lines []string
	// blocks are the fenced ones. loose are the other lines, by number from 1.
	blocks []block
	loose  map[int]string
}

// block is a fenced block.
type block struct {
	line     int // of the opening fence
	language string
	text     string
	// marker is the text of a comment on the line before, as in <!-- marker -->.
	marker string
}

var comment = regexp.MustCompile(`^<!-- (.*) -->$`)

// parsePage splits a page into blocks and what is around them.
func parsePage(name string, data []byte) (page, error) {
	p := page{path: name, lines: strings.Split(string(data), "\n"), loose: map[int]string{}}
	var open *block
	for i, line := range p.lines {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && isFence:
			open = &block{line: i + 1, language: strings.TrimSpace(fence)}
			if i > 0 {
				if m := comment.FindStringSubmatch(p.lines[i-1]); m != nil {
					open.marker = m[1]
				}
			}
		case isFence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		default:
			p.loose[i+1] = line
		}
	}
	if open != nil {
		return page{}, fmt.Errorf("%s:%d: this block has no end", name, open.line)
	}
	return p, nil
}

// pages reads every Markdown file below the root, but for those of other people's
// programs and of tests.
func pages(root string) ([]page, error) {
	var out []page
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && skipped(d.Name()) {
			return filepath.SkipDir
		}
		if d.IsDir() || path.Ext(name) != ".md" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		p, err := parsePage(filepath.ToSlash(relative), data)
		out = append(out, p)
		return err
	})
	return out, err
}

func skipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || slices.Contains([]string{"testdata", "node_modules"}, folder)
}

// numbered returns the numbers of the loose lines in order.
func (p page) numbered() []int {
	numbers := make([]int, 0, len(p.loose))
	for n := range p.loose {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers
}

// anchors are what a link to a heading of the page may end in.
func (p page) anchors() map[string]bool {
	out := map[string]bool{}
	seen := map[string]int{}
	for _, n := range p.numbered() {
		hashes, text, ok := strings.Cut(p.loose[n], " ")
		if !ok || strings.Trim(hashes, "#") != "" || hashes == "" {
			continue
		}
		a := anchor(text)
		if again := seen[a]; again > 0 {
			out[fmt.Sprintf("%s-%d", a, again)] = true
		} else {
			out[a] = true
		}
		seen[a]++
	}
	return out
}

// anchor is made from a heading as forges make it: lower case, no punctuation but dashes
// and underlines, and dashes for spaces.
func anchor(heading string) string {
	var b bytes.Buffer
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// link is one of a page.
type link struct {
	line   int
	target string
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan   = regexp.MustCompile("`([^`]+)`")
)

// links are those outside of code.
func (p page) links() []link {
	var out []link
	for _, n := range p.numbered() {
		for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(p.loose[n], "`code`"), -1) {
			out = append(out, link{n, m[1]})
		}
	}
	return out
}

// spans are the pieces of a page in code font.
func (p page) spans() []link {
	var out []link
	for _, n := range p.numbered() {
		for _, m := range codeSpan.FindAllStringSubmatch(p.loose[n], -1) {
			out = append(out, link{n, m[1]})
		}
	}
	return out
}
