package interfaces

import (
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// Bridging and File are the words of package plan.
type (
	Bridging = plan.Bridging
	File     = plan.File
)

// Pattern is what one line of a file reads in.
type Pattern struct {
	// Glob is an absolute pattern of path/filepath.
	Glob string
	// Directory tells that the line was source-directory: of what Glob finds,
	// only names of letters, digits, dashes and underscores count.
	Directory bool
	// Line is where, from 1.
	Line int
}

// Sources returns what the file reads in, in order.
func Sources(f File) (patterns []Pattern, err error) {
	return nil, errors.NotImplementedf("sources")
}

// Follow reads the file root and all that it reads in, in the order in which
// ifupdown does.
func Follow(read func(name string) ([]byte, error), glob func(pattern string) ([]string, error), root string) ([]File, error) {
	return nil, errors.NotImplementedf("follow")
}

// Bridge returns the files that change, with their new contents. What is already
// so does not change: an empty result is success.
func Bridge(files []File, bridgings []Bridging) (changed []File, err error) {
	return nil, errors.NotImplementedf("interfaces")
}
