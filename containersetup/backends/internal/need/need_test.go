package need_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/internal/need"
)

// recorder is a test that tells how it ended.
type recorder struct {
	testing.TB
	how string
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(string, ...any) {
	r.how = "failed"
	runtime.Goexit()
}
func (r *recorder) Skip(args ...any) {
	r.how = "skipped"
	runtime.Goexit()
}

func TestWhatIsRequiredFailsAndTheRestIsSkipped(t *testing.T) {
	for list, want := range map[string]string{
		"": "skipped", "lxd": "failed", "kubernetes,lxd,network": "failed", "kvm": "skipped", "lxd-too": "skipped", strings.Repeat(",", 5): "skipped",
	} {
		t.Setenv("SUTLER_REQUIRE", list)
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			need.Missing(r, "lxd", "no LXD")
			r.how = "went on"
		}()
		<-done
		if r.how != want {
			t.Errorf("with %q it %s, want %s", list, r.how, want)
		}
	}
}
