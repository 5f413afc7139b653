package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/sutler-dev/sutler/examples/docs/internal/draw"
)

// picturesDir has the texts of pictures, and what is drawn from them.
const picturesDir = "docs/pictures"

// pictures draws every picture, by its path from the root.
func pictures(root string) (map[string][]byte, error) {
	texts, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(picturesDir), "*.txt"))
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, name := range texts {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		svg, err := draw.SVG(filepath.Base(name), string(data))
		if err != nil {
			return nil, err
		}
		out[picturesDir+"/"+strings.TrimSuffix(filepath.Base(name), ".txt")+".svg"] = svg
	}
	return out, nil
}
