package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sutler-dev/sutler/examples/agent/internal/outside"
)

// A stranger opens the page in a browser, and has spans in a file. An agent that is
// killed leaves a socket, which the next replaces.
func TestAgentIsSeenFromOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "mariadb")
	spans := filepath.Join(filepath.Dir(w.dir), "spans.json")
	w.start("--page", "localhost:0", "--traces", spans)
	w.expectActive("mariadb")

	var url string
	eventually(t, "the page's address is in the log", func() bool {
		log, err := os.ReadFile(w.logPath)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`msg="the page is here" worker=introspection url=(\S+)`).FindSubmatch(log)
		if found == nil {
			return false
		}
		url = string(found[1])
		return true
	})
	response, err := http.Get(url) //nolint:gosec // Our own agent's.
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(body), "mariadb") || !strings.Contains(string(body), "model shop") {
		t.Errorf("the page: %v\n%s", err, body)
	}

	for name, mode := range map[string]os.FileMode{".agent": 0o700, ".agent/" + outside.SocketName: 0o600} {
		if info, err := os.Stat(w.path(name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, mode)
		}
	}

	w.end(syscall.SIGKILL)
	w.start("--traces", spans)
	w.expectActive("mariadb")
	for path, want := range map[string]string{
		"/ready":   "ready",
		"/metrics": `sutler_operator_applications{state="settled"} 1`,
	} {
		eventually(t, path+" has "+want, func() bool {
			body, err := outside.Fetch(t.Context(), w.path(".agent"), path)
			return err == nil && strings.Contains(string(body), want)
		})
	}
	if code := w.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	data, err := os.ReadFile(spans)
	if err != nil || !strings.Contains(string(data), `"sutler.operator.pass"`) {
		t.Errorf("the spans: %v\n%s", err, data)
	}
}
