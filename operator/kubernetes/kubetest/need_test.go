package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A witness is a test that only says how it ended.
type witness struct {
	testing.TB
	failed, skipped string
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(format string, args ...any) {
	w.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (w *witness) Skipf(format string, args ...any) {
	w.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// witnessed returns how the test ended.
func witnessed(test func(testing.TB)) *witness {
	w := &witness{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(w)
	}()
	<-done
	return w
}

func TestWhatIsMissingIsSkippedUnlessItIsRequired(t *testing.T) {
	need := func(t testing.TB) { Need(t) }
	private := func(t testing.TB) { Private(t) }
	node := func(t testing.TB) { RealNode(t) }
	for _, test := range []struct {
		name, require string
		test          func(testing.TB)
		fails         bool
		says          string
	}{
		{"cluster", "", need, false, "make testbed"},
		{"cluster, others required", "lxd,kubernetes-node", need, false, "make testbed"},
		{"cluster, required", "lxd,kubernetes", need, true, "make testbed"},
		{"private", "", private, false, "make testbed"},
		{"private, required", "kubernetes, lxd", private, true, "make testbed"},
		{"node", "kubernetes", node, false, "make testbed, as root"},
		{"node, required", "kubernetes,kubernetes-node", node, true, "make testbed, as root"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", "")
			t.Setenv("SUTLER_TESTBED_STATE", t.TempDir())
			t.Setenv("SUTLER_REQUIRE", test.require)
			w := witnessed(test.test)
			if (w.failed != "") != test.fails || (w.skipped != "") == test.fails {
				t.Errorf("failed %q, skipped %q", w.failed, w.skipped)
			}
			if !strings.Contains(w.failed+w.skipped, test.says) {
				t.Errorf("it says %q", w.failed+w.skipped)
			}
		})
	}
}

func TestClusterThatWasAskedForHasToBeThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const config = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", path)
	w := witnessed(func(t testing.TB) { Need(t) })
	if !strings.Contains(w.failed, path) {
		t.Errorf("failed %q, skipped %q", w.failed, w.skipped)
	}
}

func TestHintIsTheBeginningOfAName(t *testing.T) {
	t.Parallel()
	for test, want := range map[string]string{
		"TestPod":                "t-testpod-",
		"TestPod/slow_start#01":  "t-testpod-slow-start-01-",
		strings.Repeat("x", 100): "t-" + strings.Repeat("x", 40) + "-",
		"TestÄ/":                 "t-test-",
	} {
		if got := hint(test); got != want {
			t.Errorf("hint(%q) is %q, want %q", test, got, want)
		}
	}
}
