package interfaces_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

func TestSourcesAreAbsoluteAndInOrder(t *testing.T) {
	got, err := interfaces.Sources(interfaces.File{Name: "/etc/network/interfaces", Data: []byte(
		"source /etc/network/interfaces.d/*\n" +
			"# source commented\n" +
			"source-directory more\n" +
			"auto eth0\n" +
			"source a \\\n b/[!x]*\n" +
			"source\n")})
	if err != nil {
		t.Fatal(err)
	}
	want := []interfaces.Pattern{
		{Glob: "/etc/network/interfaces.d/*", Line: 1},
		{Glob: "/etc/network/more/*", Directory: true, Line: 3},
		{Glob: "/etc/network/a", Line: 5},
		{Glob: "/etc/network/b/[^x]*", Line: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patterns (-want +got):\n%s", diff)
	}
}

func TestSourcesThatOnlyAShellExpandsAreRefused(t *testing.T) {
	for word, kind := range map[string]error{
		"$HOME/x":  errors.NotSupported,
		"~/x":      errors.NotSupported,
		"`id`":     errors.NotSupported,
		`"a"`:      errors.NotSupported,
		"a{b,c}":   errors.NotSupported,
		"[":        errors.NotValid,
		"/x/[a-/*": errors.NotValid,
	} {
		_, err := interfaces.Sources(interfaces.File{Name: "/etc/network/interfaces", Data: []byte("\nsource " + word + "\n")})
		if !errors.Is(err, kind) || !strings.HasPrefix(err.Error(), "/etc/network/interfaces:2: ") {
			t.Errorf("%s gives %v, want %v with file and line", word, err, kind)
		}
	}
}

// tree is a folder of files in memory.
type tree map[string]string

func (fs tree) read(name string) ([]byte, error) {
	text, ok := fs[name]
	switch {
	case !ok:
		return nil, errors.NotFoundf("file %q", name)
	case text == "folder":
		return nil, &os.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	return []byte(text), nil
}

func (fs tree) glob(pattern string) ([]string, error) {
	var names []string
	for name := range fs {
		if ok, err := filepath.Match(pattern, name); err != nil {
			return nil, err
		} else if ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (fs tree) follow(t *testing.T, root string) []string {
	t.Helper()
	files, err := interfaces.Follow(fs.read, fs.glob, root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if string(f.Data) != fs[f.Name] {
			t.Errorf("%s has %q, want %q", f.Name, f.Data, fs[f.Name])
		}
		names = append(names, f.Name)
	}
	return names
}

func TestFollowReadsWhatIfupdownReads(t *testing.T) {
	fs := tree{
		"/n/interfaces": "source d/*\nsource-directory e\nsource gone\nsource /n/last\n",
		"/n/d/b":        "source ../deep\n",
		"/n/d/a":        "auto a\n",
		"/n/d/.hidden":  "no such keyword\n",
		"/n/d/sub":      "folder",
		"/n/deep":       "auto deep\n",
		"/n/e/plain_1":  "auto plain\n",
		"/n/e/x.bak":    "no such keyword\n",
		"/n/last":       "source interfaces\nsource d/a\n",
	}
	want := []string{"/n/interfaces", "/n/d/a", "/n/d/b", "/n/deep", "/n/e/plain_1", "/n/last"}
	if diff := cmp.Diff(want, fs.follow(t, "/n/interfaces")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestIfupdownReadsWhatFollowReads(t *testing.T) {
	plantest.Program(t, "ifquery", "ifupdown")
	root := t.TempDir()
	put := func(name, text string) {
		plantest.Put(t, root, []interfaces.File{{Name: name, Data: []byte(text)}})
	}
	put("interfaces", "source d/*\nsource-directory e\nsource gone\nauto root\niface root inet manual\nsource interfaces\n")
	for _, name := range []string{"d/b", "d/a", "d/.hidden", "d/c.bak", "d/sub/below", "e/plain_1", "e/x.bak", "e/.h", "other"} {
		plain := strings.Trim(strings.NewReplacer("/", "", ".", "").Replace(name), ".")
		put(name, fmt.Sprintf("auto %s\niface %s inet manual\n", plain, plain))
	}
	out := plantest.Run(t, "ifquery", "-i", filepath.Join(root, "interfaces"), "--state-dir="+t.TempDir(), "--list", "--allow=auto")
	var want []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "lo" && !strings.Contains(line, " ") {
			want = append(want, line)
		}
	}
	files, err := interfaces.Follow(os.ReadFile, filepath.Glob, filepath.Join(root, "interfaces"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		for line := range strings.Lines(string(f.Data)) {
			if name, ok := strings.CutPrefix(line, "auto "); ok {
				got = append(got, strings.TrimSpace(name))
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("interfaces that are read (-ifupdown +Follow):\n%s", diff)
	}
}

func TestFollowNeedsItsRoot(t *testing.T) {
	if _, err := interfaces.Follow(tree{}.read, tree{}.glob, "/n/interfaces"); !errors.Is(err, errors.NotFound) {
		t.Errorf("%v, want NotFound", err)
	}
}

func TestFollowIsBounded(t *testing.T) {
	n := 0
	read := func(string) ([]byte, error) {
		n++
		return fmt.Appendf(nil, "source %d\n", n), nil
	}
	glob := func(pattern string) ([]string, error) { return []string{pattern}, nil }
	_, err := interfaces.Follow(read, glob, "/n/interfaces")
	if !errors.Is(err, errors.NotValid) || !strings.HasPrefix(err.Error(), "/n/interfaces: more than 1000 files") {
		t.Errorf("%v, want NotValid", err)
	}
}

func TestFollowHandsErrorsBack(t *testing.T) {
	broken := errors.New("disk on fire")
	fs := tree{"/n/interfaces": "source d/*\n", "/n/d/a": "", "/n/d/bad": "no such keyword\n"}
	read := func(name string) ([]byte, error) {
		if name == "/n/d/a" {
			return nil, broken
		}
		return fs.read(name)
	}
	if _, err := interfaces.Follow(read, fs.glob, "/n/interfaces"); !errors.Is(err, broken) {
		t.Errorf("reading: %v", err)
	}
	failing := func(string) ([]string, error) { return nil, broken }
	if _, err := interfaces.Follow(fs.read, failing, "/n/interfaces"); !errors.Is(err, broken) || !strings.Contains(err.Error(), "/n/interfaces:1") {
		t.Errorf("looking: %v", err)
	}
	if _, err := interfaces.Follow(fs.read, fs.glob, "/n/interfaces"); !errors.Is(err, errors.NotValid) || !strings.HasPrefix(err.Error(), "/n/d/bad:1: ") {
		t.Errorf("parsing: %v", err)
	}
}
