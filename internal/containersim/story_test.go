package containersim

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
	stories = flag.Int("stories", 400, "how many random stories to tell")
	seed    = flag.Uint64("seed", 1, "seed of the first story; the others have the seeds after it")
)

// TestStories tells random stories. A failure prints the seed and how to play it
// again; with -v, that prints the whole story.
func TestStories(t *testing.T) {
	tellStories(t, *stories, func(seed uint64) *Story { return NewStory(seed, Variant{}) },
		"replay: go test ./internal/containersim -run TestStories$ -v -stories 1 -seed %d")
}

// TestCrowdStories tells stories of containers that share calls. It may take a
// few attempts to play one of them again.
func TestCrowdStories(t *testing.T) {
	tellStories(t, *stories/4, NewCrowd,
		"it may happen again: go test ./internal/containersim -run TestCrowdStories -count 100 -stories 4 -seed %d")
}

func tellStories(t *testing.T, n int, story func(seed uint64) *Story, again string) {
	t.Helper()
	began := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				seed := *seed + uint64(i)
				var st *Story
				wrong := bubble(t, func() []string {
					st = story(seed)
					return st.Tell()
				})
				if n == 1 && testing.Verbose() {
					t.Logf("%s\n%s", st, strings.Join(st.World().Trace(), "\n"))
				}
				if wrong != nil {
					t.Errorf("%s\n"+again+"\n%s", st, seed, told(wrong, st.World(), 60))
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d stories, %.0f a second", n, float64(n)/time.Since(began).Seconds())
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
