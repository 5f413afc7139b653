package simulation

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	stories = flag.Int("stories", 1000, "how many random stories to tell")
	seed    = flag.Uint64("seed", 1, "seed of the first story; the others have the seeds after it")
)

// TestStories tells random stories. A failure prints the seed and how to play it
// again; with -v, that prints the whole story.
func TestStories(t *testing.T) {
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := next.Add(1) - 1; n < int64(*stories) && !t.Failed(); n = next.Add(1) - 1 {
				tellStory(t, *seed+uint64(n))
			}
		})
	}
	wg.Wait()
	t.Logf("%d stories, %.0f a second", *stories, float64(*stories)/time.Since(began).Seconds())
}

func tellStory(t *testing.T, seed uint64) {
	t.Helper()
	var st *Story
	wrong := bubble(t, func() []string {
		st = NewStory(seed, Variant{})
		return st.Tell()
	})
	if *stories == 1 && testing.Verbose() {
		t.Logf("%s\n%s", st, strings.Join(st.World().Trace(), "\n"))
	}
	if wrong != nil {
		t.Errorf("%s\nreplay: go test ./internal/simulation -run 'TestStories$' -v -stories 1 -seed %d\n%s",
			st, seed, told(wrong, st.World(), 60))
	}
}

// TestStoriesReplay tells stories twice. Had any of them turned out differently,
// no seed would be worth printing.
func TestStoriesReplay(t *testing.T) {
	const stories = uint64(40)
	for n := range stories {
		tell := func() []string {
			var st *Story
			bubble(t, func() []string {
				st = NewStory(*seed+n, Variant{})
				return st.Tell()
			})
			return st.World().Trace()
		}
		first, second := tell(), tell()
		for i := range first {
			if i >= len(second) || first[i] != second[i] {
				t.Errorf("seed %d: line %d differs:\n%s\n%s", *seed+n, i, first[i], strings.Join(second[i:min(i+1, len(second))], ""))
				break
			}
		}
		if len(second) > len(first) {
			t.Errorf("seed %d: the second time it went on for longer", *seed+n)
		}
	}
}
