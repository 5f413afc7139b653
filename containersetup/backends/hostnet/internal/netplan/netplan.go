package netplan

import (
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// Bridging and File are the words of package plan.
type (
	Bridging = plan.Bridging
	File     = plan.File
)

// Bridge returns the files that change, with their new contents. What is already
// so does not change: an empty result is success.
func Bridge(files []File, bridgings []Bridging) (changed []File, err error) {
	return nil, errors.NotImplementedf("netplan")
}
