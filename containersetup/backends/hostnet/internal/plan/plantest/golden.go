// Package plantest has the tests that both readers of network configuration
// pass.
package plantest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan"
)

// Bridge is the function under test.
type Bridge func(files []plan.File, bridgings []plan.Bridging) ([]plan.File, error)

// Case is one folder of a corpus:
//
//	bridge   one "device bridge MAC" a line; the address may be missing
//	before/  the files, in the order of their names
//	after/   those that change, with their new contents
//	error    instead of after/: the message
type Case struct {
	Name      string
	Bridgings []plan.Bridging
	// Before are all files, After those that change.
	Before, After []plan.File
	// Err is the message; empty for none.
	Err string
	dir string
}

// Merged are the files as they are afterwards.
func (c Case) Merged() []plan.File { return Merge(c.Before, c.After) }

// Merge puts the files that changed in place of what they were.
func Merge(before, changed []plan.File) []plan.File {
	merged := slices.Clone(before)
	for i := range merged {
		for _, f := range changed {
			if f.Name == merged[i].Name {
				merged[i] = f
			}
		}
	}
	return merged
}

// Load reads a corpus. The files get names in the folder under, which is where
// they would be on a host.
func Load(t testing.TB, corpus, under string) []Case {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(corpus, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no corpus in %s: %v", corpus, err)
	}
	var cases []Case
	for _, dir := range dirs {
		c := Case{Name: filepath.Base(dir), dir: dir}
		spec, err := os.ReadFile(filepath.Join(dir, "bridge"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(spec)) {
			words := append(strings.Fields(line), "")
			c.Bridgings = append(c.Bridgings, plan.Bridging{Device: words[0], Bridge: words[1], MAC: words[2]})
		}
		c.Before = readDir(t, filepath.Join(dir, "before"), under)
		c.After = readDir(t, filepath.Join(dir, "after"), under)
		if message, err := os.ReadFile(filepath.Join(dir, "error")); err == nil {
			c.Err = strings.TrimSpace(string(message))
		}
		cases = append(cases, c)
	}
	return cases
}

func readDir(t testing.TB, dir, under string) []plan.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var files []plan.File
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, plan.File{Name: filepath.Join(under, filepath.Base(name)), Data: data})
	}
	return files
}

// Golden runs the corpus: each case has its result, a second run of it has
// none, and the input is left as it was. With the flag -update it writes the
// results instead.
func Golden(t *testing.T, bridge Bridge, cases []Case, update bool) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			kept := clone(c.Before)
			changed, err := bridge(c.Before, c.Bridgings)
			if diff := cmp.Diff(kept, c.Before); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
			if update {
				write(t, c.dir, changed, err)
				return
			}
			message := ""
			if err != nil {
				message = err.Error()
			}
			if message != c.Err {
				t.Fatalf("error %q, want %q", message, c.Err)
			}
			if strings.Contains(message, "\n") {
				t.Errorf("error of more than one line: %q", message)
			}
			if err != nil && changed != nil {
				t.Errorf("files besides an error: %v", changed)
			}
			if diff := cmp.Diff(texts(c.After), texts(changed)); diff != "" {
				t.Fatalf("files (-want +got):\n%s", diff)
			}
			if err != nil {
				return
			}
			again, err := bridge(Merge(c.Before, changed), c.Bridgings)
			if err != nil || len(again) != 0 {
				t.Errorf("the second run gave %q and %v, want nothing", texts(again), err)
			}
		})
	}
}

// texts are the contents by name.
func texts(files []plan.File) map[string]string {
	m := make(map[string]string)
	for _, f := range files {
		m[f.Name] = string(f.Data)
	}
	return m
}

func clone(files []plan.File) []plan.File {
	c := slices.Clone(files)
	for i := range c {
		c[i].Data = bytes.Clone(c[i].Data)
	}
	return c
}

func write(t *testing.T, dir string, changed []plan.File, err error) {
	t.Helper()
	after, message := filepath.Join(dir, "after"), filepath.Join(dir, "error")
	for _, old := range []string{after, message} {
		if err := os.RemoveAll(old); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil {
		if err := os.WriteFile(message, []byte(err.Error()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(changed) == 0 {
		return
	}
	if err := os.Mkdir(after, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range changed {
		if err := os.WriteFile(filepath.Join(after, filepath.Base(f.Name)), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// UpdateFlag defines the flag -update for a test binary.
func UpdateFlag() *bool {
	return flag.Bool("update", false, "write the golden files anew")
}
