package report

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jujuerrors "github.com/juju/errors"
	"github.com/juju/worker/v3"

	"github.com/sutler-dev/sutler/facade"
)

func serve(t *testing.T, dir string, report func() map[string]any) *Server {
	t.Helper()
	s, err := Serve(t.Context(), dir, report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Stop(s) })
	return s
}

func hello() map[string]any { return map[string]any{"state": "started"} }

// longDir is a directory whose socket's path no unix address takes.
func longDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long-", 24))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestReportIsFetched(t *testing.T) {
	for name, dir := range map[string]string{"short path": t.TempDir(), "long path": longDir(t)} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, dir, hello)
			for range 3 {
				data, err := Fetch(t.Context(), dir)
				if err != nil || string(data) != "state: started\n" {
					t.Fatalf("got %q, %v", data, err)
				}
			}
			info, err := os.Stat(filepath.Join(dir, socketName))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("got %v, %v; want mode 0600", info, err)
			}
			if err := worker.Stop(s); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, socketName)); !os.IsNotExist(err) {
				t.Errorf("the socket is left: %v", err)
			}
		})
	}
}

func TestNoAgentIsNotFound(t *testing.T) {
	for name, dir := range map[string]string{
		"nothing there": t.TempDir(),
		"no directory":  filepath.Join(t.TempDir(), "none"),
		"long path":     longDir(t),
		"neither":       filepath.Join(longDir(t), "none"),
	} {
		if _, err := Fetch(t.Context(), dir); !errors.Is(err, jujuerrors.NotFound) {
			t.Errorf("%s: got %v, want NotFound", name, err)
		}
	}
}

func TestSocketOfAnAgentThatWasKilledIsReplaced(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Fetch(t.Context(), dir); !errors.Is(err, jujuerrors.NotFound) {
		t.Errorf("got %v, want NotFound", err)
	}
	serve(t, dir, hello)
	if _, err := Fetch(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

func TestReaderThatGoesAwayHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, func() map[string]any { return map[string]any{"text": strings.Repeat("x", 1<<20)} })
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if data, err := Fetch(t.Context(), dir); err != nil || len(data) < 1<<20 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
}

func TestFetchHeedsItsContext(t *testing.T) {
	dir := t.TempDir()
	release := make(chan struct{})
	s := serve(t, dir, func() map[string]any { <-release; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := Fetch(ctx, dir); done <- err }()
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("want an error")
		}
	case <-time.After(10 * time.Second):
		t.Error("still waiting")
	}
	close(release)
	if err := worker.Stop(s); err != nil {
		t.Error(err)
	}
}

func TestSocketThatCannotBeMadeIsAnError(t *testing.T) {
	if _, err := Serve(t.Context(), filepath.Join(t.TempDir(), "none"), hello); err == nil {
		t.Error("want an error")
	}
}

type opaque struct{ secret facade.Secret }

func TestReportShowsValuesAsTheyPrint(t *testing.T) {
	secret := facade.NewSecret("canary")
	data, err := Marshal(map[string]any{
		"secret": secret,
		"hidden": opaque{secret},
		"error":  errors.New("why"),
		"after":  3 * time.Second,
		"list":   []any{1, map[string]any{"secret": secret}},
		"maps":   []map[string]any{{"error": errors.New("why not")}},
		"names":  []string{"a"},
		"none":   nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{"error: why\n", "error: why not\n", "after: 3s\n", "- 1\n", "- a\n", "none: null\n", "secret: '[redacted]'\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		t.Errorf("a secret is in\n%s", text)
	}
}
