package images_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

func TestConfigsAreJudged(t *testing.T) {
	for field, config := range map[string]images.Config{
		"Dir": {}, `Dir "pool"`: {Dir: "pool"}, "StallTimeout": {Dir: "/pool", StallTimeout: -1},
	} {
		_, err := images.New(config)
		expectError(t, err, errors.NotValid, field)
	}
}

func TestSourcesAreJudged(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	for url, valid := range map[string]bool{
		"file:///var/image.img": true, "file://localhost/x": true, "http://x": true, "https://u:p@x:8080/y?z#a": true,
		"": false, "x": false, "/x": false, "file:x": false, "file://other/x": false, "file:///x?y": false, "file://u@/x": false, "file:///x%00y": false, "file://": false,
		"ftp://hunter2@x/y": false, "http:///x": false, "http:x": false, "https://:80/x": false, "http://[hunter2": false, "https://x/%zz?hunter2": false, "hunter2:x": false,
	} {
		err := images.Source{URL: url, SHA256: sum}.Validate()
		if valid && err != nil {
			t.Errorf("%q: %v", url, err)
		}
		if !valid {
			expectError(t, err, errors.NotValid, "URL")
			if strings.Contains(err.Error(), "hunter2") && !strings.HasPrefix(url, "hunter2") {
				t.Errorf("%q: %v", url, err)
			}
		}
	}
	for _, wrong := range []string{"", "0a", sum + "0a", strings.Repeat("x", 64), strings.Repeat("long", 1000)} {
		err := images.Source{URL: "http://x", SHA256: wrong}.Validate()
		expectError(t, err, errors.NotValid, "SHA256")
		if len(err.Error()) > 200 {
			t.Error(err)
		}
	}
	expectError(t, images.Source{URL: "http://x", SHA256: sum, Size: 1 << 60}.Validate(), errors.NotValid, "Size")
	_, err := newWorld(t).store.Fetch(t.Context(), images.Source{})
	expectError(t, err, errors.NotValid, "URL")
}

func TestNamesThatAreNoneAreRefused(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"", ".", "..", "a/b", "../a", "a.b", "-a", "a-", "a b", "a\x00", "a*", strings.Repeat("a", 64)} {
		_, err := w.store.Files(name)
		expectError(t, err, errors.NotValid, "instance name")
		_, err = w.store.Overlay(t.Context(), images.Image{Path: "/x", Format: "raw"}, name, 1)
		expectError(t, err, errors.NotValid, "instance name")
		_, err = w.store.WriteSeed(t.Context(), name, nil)
		expectError(t, err, errors.NotValid, "instance name")
		expectError(t, w.store.RemoveInstanceFiles(t.Context(), name), errors.NotValid, "instance name")
		_, err = w.store.Hold(t.Context(), name)
		expectError(t, err, errors.NotValid, "instance name")
	}
	w.expectFiles()
}

func TestAnOverlayIsMadeAsAWhole(t *testing.T) {
	w := newWorld(t)
	base := images.Image{Path: write(t, filepath.Join(w.dir, "base-x.img"), nil), Format: "qcow2", VirtualSize: 2 << 30}
	// What an agent that was killed left of it, which others could read.
	if err := os.Chmod(write(t, filepath.Join(w.dir, ".juju-1.qcow2.tmp"), []byte("half of it")), 0o644); err != nil {
		t.Fatal(err)
	}
	path, err := w.store.Overlay(t.Context(), base, "juju-1", 8192)
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(path)
	want := "qemu-img create -q -f qcow2 -F qcow2 -b " + base.Path + " " + filepath.Join(w.dir, ".juju-1.qcow2.tmp") + " 8192M"
	if err != nil || string(made) != want {
		t.Errorf("made by %s, %v; want %s", made, err, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 || path != filepath.Join(w.dir, "juju-1.qcow2") {
		t.Errorf("%s: %v, %v", path, info.Mode(), err)
	}
	w.expectFiles("base-x.img", "juju-1.qcow2")

	_, err = w.store.Overlay(t.Context(), base, "juju-1", 8192)
	expectError(t, err, errors.AlreadyExists, path)
	if again, err := os.ReadFile(path); err != nil || string(again) != want {
		t.Errorf("%s, %v", again, err)
	}
}

func TestOverlaysThatCannotBeAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		size   uint64
		free   uint64
		change func(*images.Image)
		kind   error
		says   []string
	}{
		"smaller than its image": {size: 2047, kind: errors.NotValid, says: []string{"2047 MiB", "2048 MiB"}},
		"nothing":                {size: 0, kind: errors.NotValid},
		"too large for anybody":  {size: 1 << 40, kind: errors.NotValid, says: []string{"1099511627776"}},
		"so large that it wraps": {size: 1<<44 + 8192, kind: errors.NotValid},
		"larger than the host":   {size: 8192, free: 8 << 30, kind: images.ErrNoSpace, says: []string{"8192 MiB", "juju-1"}},
		"on no format":           {size: 8192, change: func(i *images.Image) { i.Format = "vmdk" }, kind: errors.NotValid},
		"on nothing":             {size: 8192, change: func(i *images.Image) { i.Path = "" }, kind: errors.NotValid},
		"on what is gone":        {size: 8192, change: func(i *images.Image) { i.Path += "x" }, kind: os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *images.Config) {
				if test.free > 0 {
					c.FreeSpace = func(string) (uint64, error) { return test.free, nil }
				}
			})
			base := images.Image{Path: write(t, filepath.Join(w.dir, "base-x.img"), nil), Format: "raw", VirtualSize: 2 << 30}
			if test.change != nil {
				test.change(&base)
			}
			_, err := w.store.Overlay(t.Context(), base, "juju-1", test.size)
			expectError(t, err, test.kind, test.says...)
			w.expectFiles("base-x.img")
			if changes := w.host.Changes(); len(changes) > 0 {
				t.Errorf("done: %q", changes)
			}
		})
	}
}

func TestAnOverlayThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t)
	base := images.Image{Path: write(t, filepath.Join(w.dir, "base-x.img"), nil), Format: "raw", VirtualSize: 1}
	w.host.On(hosttest.Exit(1, "qemu-img: no luck"), "qemu-img", "create")
	_, err := w.store.Overlay(t.Context(), base, "juju-1", 1)
	expectError(t, err, nil, "no luck", "juju-1")
	w.expectFiles("base-x.img")
}

func TestASeedIsPrivateAndReplacedAsAWhole(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"one", "two, which is longer", ""} {
		// What was left of an earlier one could be read by others.
		if err := os.WriteFile(write(t, filepath.Join(w.dir, ".juju-1-seed.iso.tmp"), nil), []byte("left"), 0o644); err != nil {
			t.Fatal(err)
		}
		path, err := w.store.WriteSeed(t.Context(), "juju-1", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(got) != text || info.Mode() != 0o600 {
			t.Errorf("%q, %v, %v %v", got, info.Mode(), err, statErr)
		}
		w.expectFiles("juju-1-seed.iso")
	}
}

func TestASeedThatFailsLeavesNothing(t *testing.T) {
	w := newWorld(t, func(c *images.Config) { c.FreeSpace = func(string) (uint64, error) { return 1000, nil } })
	_, err := w.store.WriteSeed(t.Context(), "juju-1", []byte("hunter2"))
	expectError(t, err, images.ErrNoSpace, "juju-1")
	w.expectFiles()
	if strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}

	w = newWorld(t)
	// The name is taken by what no file replaces.
	if err := os.MkdirAll(filepath.Join(w.dir, "juju-1-seed.iso"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = w.store.WriteSeed(t.Context(), "juju-1", []byte("hunter2"))
	expectError(t, err, nil, "juju-1")
	w.expectFiles("juju-1-seed.iso")
}

func TestInstancesAreKnownByTheirFiles(t *testing.T) {
	w := newWorld(t)
	if names, err := w.store.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%q, %v", names, err)
	}
	for _, name := range []string{
		"a.qcow2", "a-seed.iso", "b-seed.iso", "c-console.log", ".d.qcow2.tmp", ".e-seed.iso.tmp", "f-console.log.1", "g-seed.qcow2", "h-seed-seed.iso",
		// Nobody's.
		"base-" + sumOf(nil) + ".img", ".base-" + sumOf(nil) + ".part", ".lock", ".x.qcow2", "x.tmp", "x.iso", "-seed.iso", ".qcow2", "x.y.qcow2", "x-console.log.old", "x-console.log.",
	} {
		write(t, filepath.Join(w.dir, name), nil)
	}
	names, err := w.store.Names(t.Context())
	if want := []string{"a", "b", "c", "d", "e", "f", "g-seed", "h-seed"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	before := w.files()
	for _, name := range append(names, "never-there") {
		if err := w.store.RemoveInstanceFiles(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if names, err := w.store.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%q, %v", names, err)
	}
	if removed := len(before) - len(w.files()); removed != 9 {
		t.Errorf("%d removed: %q are left of %q", removed, w.files(), before)
	}
}

func TestAnInstanceThatWasNeverThereIsRemoved(t *testing.T) {
	if err := newWorld(t).store.RemoveInstanceFiles(t.Context(), "juju-1"); err != nil {
		t.Error(err)
	}
}

func TestOfAHalfRemovedInstanceTheDiskIsLeft(t *testing.T) {
	w := newWorld(t)
	write(t, filepath.Join(w.dir, "a.qcow2"), nil)
	// What cannot be removed: a folder with something in it.
	write(t, filepath.Join(w.dir, "a-seed.iso", "x"), nil)
	expectError(t, w.store.RemoveInstanceFiles(t.Context(), "a"), nil, `"a"`)
	w.expectFiles("a-seed.iso", "a.qcow2")
}

func TestWhatHasAnEndedContextDoesNothing(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	base := images.Image{Path: write(t, filepath.Join(w.dir, "base-x.img"), nil), Format: "raw", VirtualSize: 1}
	_, err := w.store.Overlay(ctx, base, "a", 1)
	expectError(t, err, context.Canceled)
	_, err = w.store.WriteSeed(ctx, "a", nil)
	expectError(t, err, context.Canceled)
	_, err = w.store.Names(ctx)
	expectError(t, err, context.Canceled)
	expectError(t, w.store.RemoveInstanceFiles(ctx, "a"), context.Canceled)
	w.expectFiles("base-x.img")
}

func TestAnInstanceIsHeldByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		other := w.another() // as in another process
		release, err := w.store.Hold(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, store := range []*images.Store{w.store, other} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := store.Hold(ctx, "a")
			expectError(t, err, context.DeadlineExceeded, "waiting for", "instance a")
			cancel()
			free, err := store.Hold(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			free()
		}
		got := make(chan error)
		go func() {
			free, err := other.Hold(t.Context(), "a")
			if err == nil {
				free()
			}
			got <- err
		}()
		synctest.Wait()
		release()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}
