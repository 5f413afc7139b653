package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// run writes what is out of date, and says so.
func run(root string) error {
	files, err := generatedFiles(root)
	if err != nil {
		return err
	}
	names, err := outdated(root, files)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		//nolint:gosec // as git checks files out
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), files[name], 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", name)
	}
	return nil
}
