package interfaces_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/interfaces"
	"github.com/sutler-dev/sutler/containersetup/backends/hostnet/internal/plan/plantest"
)

// FuzzBridge holds, for any two files:
//
//   - nothing panics, and an error is one line;
//   - what is written parses, and a second run writes nothing;
//   - every line that was there is there, but for the names that changed and for
//     the backslashes of a line that is written anew;
//   - the bridge has the device as its port, once.
func FuzzBridge(f *testing.F) {
	for _, c := range corpus(f) {
		var second []byte
		if len(c.Before) > 1 {
			second = c.Before[1].Data
		}
		f.Add(c.Before[0].Data, second, c.Bridgings[0].MAC)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, mac string) {
		before := []interfaces.File{{Name: "/etc/network/1", Data: first}, {Name: "/etc/network/2", Data: second}}
		bridgings := []interfaces.Bridging{{Device: "eth0", Bridge: "br-eth0", MAC: mac}}
		changed, err := interfaces.Bridge(before, bridgings)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error of more than one line: %q", err)
			}
			if changed != nil {
				t.Errorf("files besides an error")
			}
			return
		}
		after := plantest.Merge(before, changed)
		again, err := interfaces.Bridge(after, bridgings)
		if err != nil || len(again) != 0 {
			t.Fatalf("the second run gave %v and %v, want nothing; after the first:\n%s\n---\n%s", again, err, after[0].Data, after[1].Data)
		}
		if len(changed) == 0 {
			return
		}
		if n := strings.Count(string(after[0].Data)+string(after[1].Data), "bridge_ports eth0\n"); n != 1 {
			t.Errorf("bridge_ports is there %d times", n)
		}
		for i := range before {
			keepsLines(t, string(before[i].Data), string(after[0].Data)+"\n"+string(after[1].Data))
		}
	})
}

// keepsLines compares words, the names of the device and the bridge aside. An
// option may have moved to the port's stanza, in another file.
func keepsLines(t *testing.T, before, after string) {
	t.Helper()
	var there []string
	for line := range strings.Lines(after) {
		there = append(there, neutral(line))
	}
	all := strings.Join(there, " ")
	for line := range strings.Lines(before) {
		if want := neutral(line); !slices.Contains(there, want) && !strings.Contains(all, want) {
			t.Errorf("line %q is lost in\n%s", line, after)
		}
	}
}

// neutral leaves out names that may change, and backslashes.
func neutral(line string) string {
	words := strings.Fields(strings.ReplaceAll(line, "br-eth0", "eth0"))
	words = slices.Compact(slices.DeleteFunc(words, func(w string) bool { return strings.Trim(w, `\`) == "" }))
	for i := range words {
		words[i] = strings.TrimRight(words[i], `\`)
	}
	return strings.Join(slices.Compact(words), " ")
}

// FuzzSources holds that nothing panics, that all names are absolute, and that
// following them ends.
func FuzzSources(f *testing.F) {
	f.Add([]byte("source interfaces.d/*\nsource-directory ../x\n"))
	f.Add([]byte("source a b\\\n c\nsource [\nsource [!a]*\nsource $HOME/x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := interfaces.File{Name: "/etc/network/interfaces", Data: data}
		patterns, err := interfaces.Sources(file)
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("error of more than one line: %q", err)
		}
		for _, p := range patterns {
			if !strings.HasPrefix(p.Glob, "/") || p.Line < 1 {
				t.Errorf("pattern %+v", p)
			}
		}
		read := func(string) ([]byte, error) { return data, nil }
		glob := func(pattern string) ([]string, error) { return []string{pattern}, nil }
		files, err := interfaces.Follow(read, glob, file.Name)
		if err == nil && len(files) == 0 {
			t.Errorf("no file at all")
		}
	})
}
