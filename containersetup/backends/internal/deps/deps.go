// Package deps holds what packages of this module are about to require.
package deps

import (
	_ "github.com/digitalocean/go-libvirt"
	_ "github.com/kdomanski/iso9660"
	_ "libvirt.org/go/libvirtxml"
)
