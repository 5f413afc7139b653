package host

import (
	"path/filepath"
	"slices"
)

// overlay returns names with those of files, nil being for removed, that match.
func overlay(names []string, files map[string][]byte, pattern string) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, ok := files[name]
		return ok
	})
	for name, data := range files {
		if ok, err := filepath.Match(pattern, name); ok && err == nil && data != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
