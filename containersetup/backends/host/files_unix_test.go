//go:build unix

package host_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// at puts a file there, and returns its name.
func at(t *testing.T, content string, parts ...string) string {
	t.Helper()
	name := filepath.Join(parts...)
	if err := os.WriteFile(name, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

// tree returns what is below a directory, links as "name -> target".
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		short, _ := filepath.Rel(dir, name)
		if entry.Type() == fs.ModeSymlink {
			to, _ := os.Readlink(name)
			short += " -> " + to
		}
		names = append(names, short)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFilesAreReadAndWritten(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if _, err := machine().ReadFile(t.Context(), name); !errors.Is(err, errors.NotFound) || err.Error() != fmt.Sprintf("file %q not found", name) {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "", strings.Repeat("three", 1000)} {
		if err := machine().WriteFile(t.Context(), name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := machine().ReadFile(t.Context(), name); err != nil || string(data) != content {
			t.Fatalf("%q, %v", data, err)
		}
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Fatalf("something is left behind: %q", got)
	}
	for range 2 {
		if err := machine().Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestRelativeNamesAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	h := machine()
	for _, name := range []string{"", "file", "./file", "../file", "*"} {
		_, readErr := h.ReadFile(t.Context(), name)
		_, globErr := h.Glob(t.Context(), name)
		_, lockErr := h.LockHolder(t.Context(), name)
		for about, err := range map[string]error{
			"read": readErr, "glob": globErr, "lock": lockErr,
			"write":  h.WriteFile(t.Context(), name, nil, 0o600),
			"remove": h.Remove(t.Context(), name),
		} {
			if want := fmt.Sprintf("file name %q (want an absolute one) not valid", name); !errors.Is(err, errors.NotValid) || err.Error() != want {
				t.Errorf("%s: %v (want %s)", about, err, want)
			}
		}
	}
	if got := tree(t, "."); len(got) != 0 {
		t.Error(got)
	}
}

func TestANewFileHasThePermissionsThatWereAskedFor(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	for _, test := range []struct{ perm, dir fs.FileMode }{{0o600, 0o700}, {0o640, 0o750}, {0o644, 0o755}, {0o664, 0o755}, {0o755, 0o755}} {
		dir := t.TempDir()
		name := filepath.Join(dir, "a", "b", "file")
		if err := machine().WriteFile(t.Context(), name, []byte("x"), test.perm); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{
			name: test.perm, filepath.Dir(name): fs.ModeDir | test.dir, filepath.Join(dir, "a"): fs.ModeDir | test.dir,
		} {
			if info, err := os.Stat(name); err != nil || info.Mode() != want {
				t.Errorf("%s is %v, %v (want %v)", name, info.Mode(), err, want)
			}
		}
	}
}

func TestAFileThatIsThereKeepsOwnerAndPermissions(t *testing.T) {
	name := at(t, "old", t.TempDir(), "file")
	if err := os.Chmod(name, 0o604); err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 12345, 54321
		if err := os.Chown(name, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	if err := machine().WriteFile(t.Context(), name, []byte("new"), 0o777); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o604 || int(owner.Uid) != uid || int(owner.Gid) != gid || read(t, name) != "new" {
		t.Fatal(info.Mode(), owner.Uid, owner.Gid)
	}
}

func TestLinksStay(t *testing.T) {
	for _, test := range []struct {
		about string
		links [][2]string // target, name
		want  []string    // the links, and where the content is
	}{
		{"to a file", [][2]string{{"real/file", "link"}}, []string{"link -> real/file", "real", "real/file", "real/sub"}},
		{"to a link", [][2]string{{"real/file", "middle"}, {"middle", "link"}}, []string{"link -> middle", "middle -> real/file", "real", "real/file", "real/sub"}},
		{"to what is not there yet", [][2]string{{"real/new", "link"}}, []string{"link -> real/new", "real", "real/file", "real/new", "real/sub"}},
		{"to where there is no directory yet", [][2]string{{"run/new", "link"}}, []string{"link -> run/new", "real", "real/file", "real/sub", "run", "run/new"}},
		{"upwards from a directory that is a link", [][2]string{{"real/sub", "dir"}, {"../file", "real/sub/link"}}, []string{"dir -> real/sub", "real", "real/file", "real/sub", "real/sub/link -> ../file"}},
	} {
		t.Run(test.about, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "real", "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			at(t, "old", dir, "real", "file")
			for _, link := range test.links {
				if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
					t.Fatal(err)
				}
			}
			name := filepath.Join(dir, "link")
			if strings.HasPrefix(test.about, "upwards") {
				name = filepath.Join(dir, "dir", "link")
			}
			if err := machine().WriteFile(t.Context(), name, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := tree(t, dir); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if got := read(t, name); got != "new" {
				t.Error(got)
			}
		})
	}
	t.Run("absolute", func(t *testing.T) {
		dir := t.TempDir()
		file := at(t, "old", dir, "file")
		link := filepath.Join(dir, "link")
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		if err := machine().WriteFile(t.Context(), link, []byte("new"), 0o600); err != nil || read(t, file) != "new" {
			t.Fatal(err)
		}
		// The link is what is removed.
		if err := machine().Remove(t.Context(), link); err != nil || read(t, file) != "new" {
			t.Fatal(err)
		}
	})
	t.Run("in a circle", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink("link", link); err != nil {
			t.Fatal(err)
		}
		if err := machine().WriteFile(t.Context(), link, nil, 0o600); !errors.Is(err, errors.NotValid) {
			t.Fatal(err)
		}
	})
}

// What cannot be written says so, and leaves nothing behind.
func TestAFailureToWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	at(t, "old", dir, "file")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	for _, name := range []string{"folder", "file/below", "file/below/that", strings.Repeat("x", 300)} {
		err := machine().WriteFile(t.Context(), filepath.Join(dir, name), []byte("canary"), 0o600)
		if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := tree(t, dir); !slices.Equal(got, before) || read(t, filepath.Join(dir, "file")) != "old" {
		t.Fatalf("%q", got)
	}
}

func TestADirectoryIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := machine().ReadFile(t.Context(), dir); err == nil || errors.Is(err, errors.NotFound) {
		t.Error(err)
	}
	at(t, "x", dir, "file")
	if err := machine().Remove(t.Context(), dir); err == nil {
		t.Error("a directory was removed with what is in it")
	}
	if err := machine().Remove(t.Context(), filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	if err := machine().Remove(t.Context(), dir+"/"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an empty directory stays")
	}
}

// A writer is killed at any moment: there is one version or the other, as a whole.
func TestAfterACrashThereIsOneVersionOrTheOther(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	seen := map[string]bool{}
	for n := range 20 {
		writer := start(t, writeRole, name) // says "written" once the first is
		for range n % 3 {
			writer.lines.Scan()
		}
		_ = writer.Process.Kill()
		_ = writer.Wait()
		content := read(t, name)
		if !slices.Contains(versions(), content) {
			t.Fatalf("%d bytes, of %d and %d", len(content), len(versions()[0]), len(versions()[1]))
		}
		seen[content] = true
	}
	if len(seen) != 2 {
		t.Log("the writer was always killed at the same version")
	}
	// What the crash left is hidden from whoever reads a folder of configuration.
	for _, left := range tree(t, dir) {
		if left != "file" && (!strings.HasPrefix(left, ".sutler-") || !strings.HasSuffix(left, ".tmp")) {
			t.Error(left)
		}
	}
}

func TestManyWritersAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "file")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			content := strings.Repeat(string(rune('a'+i)), 1000+i)
			if err := machine().WriteFile(t.Context(), name, []byte(content), 0o600); err != nil {
				t.Error(err)
			}
			data, err := machine().ReadFile(t.Context(), name)
			if err != nil || len(data) < 1000 || strings.Trim(string(data), string(data[:1])) != "" {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
	wg.Wait()
}

func TestGlob(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a", "a.b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
		at(t, "", dir, sub, "2.yaml")
		at(t, "", dir, sub, "1.yaml")
		at(t, "", dir, sub, "1.yml")
	}
	got, err := machine().Glob(t.Context(), dir+"/*/*.yaml")
	want := []string{dir + "/a.b/1.yaml", dir + "/a.b/2.yaml", dir + "/a/1.yaml", dir + "/a/2.yaml"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := machine().Glob(t.Context(), "/no/such/*"); len(got) != 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := machine().Glob(t.Context(), "/no/such/[a"); !errors.Is(err, errors.NotValid) {
		t.Error(err)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	dir := t.TempDir()
	at(t, "old", dir, "file")
	before := tree(t, dir)
	var told []string
	h := host.DryRun(machine(), func(line string) { told = append(told, line) })

	if out, err := h.Run(t.Context(), host.Look("cat", dir+"/file")); err != nil || string(out.Stdout) != "old" {
		t.Fatalf("%q, %v", out.Stdout, err)
	}
	if out, err := h.Run(t.Context(), host.Do("rm", "-r", dir)); err != nil || len(out.Stdout) != 0 {
		t.Fatal(err)
	}
	for _, err := range []error{
		h.WriteFile(t.Context(), dir+"/sub/new", []byte("canary"), 0o600),
		h.Remove(t.Context(), dir+"/file"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"run rm -r " + dir, "write " + dir + "/sub/new (6 bytes, 0600)", "remove " + dir + "/file"}
	if !slices.Equal(told, want) {
		t.Errorf("got  %q\nwant %q", told, want)
	}
	if got := tree(t, dir); !slices.Equal(got, before) || read(t, dir+"/file") != "old" {
		t.Fatalf("%q", got)
	}
}
