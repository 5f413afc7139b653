package host

import (
	"path/filepath"

	"github.com/juju/errors"
)

// absolute returns errors.NotValid for a name that depends on where one stands.
func absolute(name string) error {
	if !filepath.IsAbs(name) {
		return errors.NotValidf("file name %q (want an absolute one)", cut(name, 100))
	}
	return nil
}
