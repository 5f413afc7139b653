package interfaces

import (
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// maxFiles bounds how many files one configuration has.
const maxFiles = 1000

// Pattern is what one word of a line reads in.
type Pattern struct {
	// Glob is an absolute pattern of path/filepath.
	Glob string
	// Directory tells that the line was source-directory: of what Glob finds,
	// only names of letters, digits, dashes and underscores count.
	Directory bool
	// Line is where, from 1.
	Line int
}

// Sources returns what the file reads in, in order: what source names, by
// wildcards or not, and all in the folders that source-directory names. A name
// that is not absolute is taken from the file's own folder. errors.NotSupported is
// for what only a shell could expand.
func Sources(f File) (patterns []Pattern, err error) {
	if err := f.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	d, err := parse(f)
	if err != nil {
		return nil, err
	}
	err = singles([]*document{d}, func(d *document, l *line) error {
		if l.words[0] != "source" && l.words[0] != "source-directory" {
			return nil
		}
		for _, word := range l.words[1:] {
			if strings.ContainsAny(word, "\"'\\$`~{}()<>|&;") {
				return plan.Unsupported(d.name, l.number, "%s of %s (want a plain name or pattern)", l.words[0], plan.Quote(word))
			}
			if !path.IsAbs(word) {
				word = path.Join(path.Dir(d.name), word)
			}
			// What is not one of a set has another mark in Go.
			p := Pattern{Glob: strings.ReplaceAll(word, "[!", "[^"), Line: l.number}
			if l.words[0] == "source-directory" {
				p.Glob, p.Directory = path.Join(p.Glob, "*"), true
			}
			if _, err := path.Match(p.Glob, ""); err != nil {
				return plan.Invalid(d.name, l.number, "%s of the malformed pattern %s", l.words[0], plan.Quote(word))
			}
			patterns = append(patterns, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return patterns, nil
}

// takes tells whether a name that Glob found is meant: a wildcard does not stand
// for the dot of a hidden file, and source-directory takes plain names only.
func (p Pattern) takes(name string) bool {
	wanted, found := strings.Split(p.Glob, "/"), strings.Split(name, "/")
	for i, element := range found {
		if i < len(wanted) && strings.HasPrefix(element, ".") && !strings.HasPrefix(wanted[i], ".") {
			return false
		}
	}
	if !p.Directory {
		return true
	}
	base := path.Base(name)
	return base != "" && strings.Trim(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// Follow reads the file root and all that it reads in, in the order in which
// ifupdown does: a file, then what its lines name, one after the other. Each file
// is read once, however often it is named, by itself too; a folder among them is
// passed over, and so is one that vanished. glob returns names in order, as
// filepath.Glob does. More than 1000 files are errors.NotValid; what read and glob
// return comes back as it is, for root too.
func Follow(read func(name string) ([]byte, error), glob func(pattern string) ([]string, error), root string) ([]File, error) {
	var files []File
	seen := make(map[string]bool)
	var follow func(name string) error
	follow = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		data, err := read(name)
		if err != nil {
			passed := errors.Is(err, errors.NotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EISDIR)
			if passed && len(files) > 0 {
				return nil
			}
			return errors.Trace(err)
		}
		f := File{Name: name, Data: data}
		if files = append(files, f); len(files) > maxFiles {
			return plan.Invalid(root, 0, "more than %d files are read in", maxFiles)
		}
		patterns, err := Sources(f)
		if err != nil {
			return err
		}
		for _, p := range patterns {
			names, err := glob(p.Glob)
			if err != nil {
				return errors.Annotatef(err, "%s:%d", name, p.Line)
			}
			for _, found := range names {
				if !p.takes(found) {
					continue
				}
				if err := follow(found); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := follow(path.Clean(root)); err != nil {
		return nil, err
	}
	return files, nil
}
