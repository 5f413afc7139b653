package enginelog_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/dependency"

	"github.com/sutler-dev/sutler/enginelog"
)

// Both consumers take it.
var (
	_ worker.Logger     = (*enginelog.Logger)(nil)
	_ dependency.Logger = (*enginelog.Logger)(nil)

	_ = worker.RunnerParams{Logger: enginelog.New(nil)}
	_ = dependency.EngineConfig{Logger: enginelog.New(nil)}
)

// levels are the methods of a logger and what they log at.
func levels(l *enginelog.Logger) []struct {
	level slog.Level
	logf  func(string, ...any)
} {
	return []struct {
		level slog.Level
		logf  func(string, ...any)
	}{
		{slog.LevelDebug - 4, l.Tracef},
		{slog.LevelDebug, l.Debugf},
		{slog.LevelInfo, l.Infof},
		{slog.LevelWarn, l.Warningf},
		{slog.LevelError, l.Errorf},
	}
}

// counted counts how often it is formatted.
type counted struct{ times *int }

func (c counted) String() string {
	*c.times++
	return "counted"
}

func TestEachMethodLogsAtItsLevelAndFormatsOnlyWhatIsEnabled(t *testing.T) {
	all := levels(enginelog.New(nil))
	for _, enabled := range all {
		for i := range all {
			var out bytes.Buffer
			to := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: enabled.level}))
			method := levels(enginelog.New(to))[i]

			times := 0
			method.logf("%s %d%%", counted{&times}, 7)
			if method.level < enabled.level {
				if times != 0 || out.Len() != 0 {
					t.Errorf("%v enabled: %v was formatted %d times, logged %q", enabled.level, method.level, times, &out)
				}
				continue
			}
			var got struct{ Level, Msg string }
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%v enabled: %v logged %q: %v", enabled.level, method.level, &out, err)
			}
			if times != 1 || got.Level != method.level.String() || got.Msg != "counted 7%" {
				t.Errorf("%v enabled: %v was formatted %d times, logged %q", enabled.level, method.level, times, &out)
			}
		}
	}
}

func TestNilLoggerDiscards(t *testing.T) {
	times := 0
	for _, method := range levels(enginelog.New(nil)) {
		method.logf("%s", counted{&times})
	}
	if times != 0 {
		t.Errorf("formatted %d times, want none", times)
	}
}

func TestAttributesAndGroupsAreKept(t *testing.T) {
	var out bytes.Buffer
	to := slog.New(slog.NewTextHandler(&out, nil)).With("model", "m1").WithGroup("g")
	enginelog.New(to).Infof("hello")
	if got := out.String(); !strings.Contains(got, "msg=hello model=m1\n") {
		t.Errorf("logged %q", got)
	}
}

func TestSourceIsTheCaller(t *testing.T) {
	var out bytes.Buffer
	to := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{AddSource: true, Level: enginelog.LevelTrace}))
	for _, method := range levels(enginelog.New(to)) {
		out.Reset()
		method.logf("x")
		var got struct{ Source struct{ File string } }
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if base := filepath.Base(got.Source.File); base != "enginelog_test.go" {
			t.Errorf("%v: the source is %s", method.level, base)
		}
	}
}

// failing is a handler that cannot write.
type failing struct{ slog.Handler }

func TestHandlerThatFailsIsNobodysTrouble(t *testing.T) {
	to := slog.New(failing{slog.NewTextHandler(brokenPipe{}, nil)})
	for _, method := range levels(enginelog.New(to)) {
		method.logf("x")
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestDisabledLevelCostsNoAllocationOfItsOwn(t *testing.T) {
	l := enginelog.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if n := testing.AllocsPerRun(100, func() { l.Tracef("nothing to format") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkTracefDisabled(b *testing.B) {
	l := enginelog.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	for b.Loop() {
		l.Tracef("manifold %q: %v", "name", b)
	}
}

// A worker.Runner logs its restarts through an enginelog.Logger.
func ExampleNew() {
	to := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelInfo,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	logger := enginelog.New(to.With("component", "runner"))
	logger.Infof("%d workers to start", 2)
	logger.Tracef("nobody sees this")

	runner := worker.NewRunner(worker.RunnerParams{Logger: logger})
	runner.Kill()
	_ = runner.Wait()
	// Output:
	// level=INFO msg="2 workers to start" component=runner
	// level=INFO msg="runner is dying" component=runner
}
