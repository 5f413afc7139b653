// Package deps holds what packages of this module are about to require.
package deps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/vishvananda/netlink"
	_ "golang.org/x/sys/unix"
	_ "gopkg.in/yaml.v3"

	_ "github.com/sutler-dev/sutler/facade"
)
