// Package deps holds what packages of this module are about to require.
package deps

import (
	_ "github.com/digitalocean/go-libvirt"
	_ "libvirt.org/go/libvirtxml"
)
