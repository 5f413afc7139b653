package images_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// An image is fetched, an instance is made on it, and removed again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	image := rawImage(1, 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "small.img"), image, 0o600); err != nil {
		fmt.Println(err)
		return
	}
	qemu := &hosttest.Host{} // in the place of the machine that this runs on
	qemu.On(qemuInfo, "qemu-img", "info")
	qemu.On(qemuCreate, "qemu-img", "create")

	store, err := images.New(images.Config{Dir: filepath.Join(dir, "pool"), Host: qemu})
	if err != nil {
		fmt.Println(err)
		return
	}
	base, err := store.Fetch(ctx, images.Source{URL: "file://" + dir + "/small.img", SHA256: sumOf(image)})
	fmt.Println(base.Format, base.VirtualSize, err)
	disk, err := store.Overlay(ctx, base, "juju-1-0", 8)
	fmt.Println(filepath.Base(disk), err)
	seed, err := store.WriteSeed(ctx, "juju-1-0", []byte("what it is told"))
	fmt.Println(filepath.Base(seed), err)
	fmt.Println(store.Names(ctx))
	fmt.Println(store.RemoveInstanceFiles(ctx, "juju-1-0"))
	fmt.Println(store.Names(ctx))
	// Output:
	// raw 1048576 <nil>
	// juju-1-0.qcow2 <nil>
	// juju-1-0-seed.iso <nil>
	// [juju-1-0] <nil>
	// <nil>
	// [] <nil>
}
