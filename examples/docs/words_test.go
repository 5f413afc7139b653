package main

import (
	"slices"
	"testing"
)

func TestWhatCodeSaysIsFound(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a_test.go", `package a

func test(l logger) { l.Info("in a test") }
`)
	write(t, dir, "a.go", `package a

type Outcome string

const (
	OutcomeDone Outcome = "done"
	stateIdle           = "idle"
	other               = "other"
)

func f(l logger, failed bool) map[string]any {
	level, message := slog.LevelInfo, "went well"
	if failed {
		message = "went wrong"
	}
	l.Log(ctx, level, message, "why", 1)
	l.Warn("take care: " + what)
	l.Debug("nobody looks")
	log(ctx, slog.LevelDebug, "nobody looks either")
	attrs := slog.String("key", "value")
	out := map[string]any{"field": attrs}
	out["more"] = 1
	return out
}

func statusOf() said {
	return said{1, fmt.Sprintf("%s; given up after %d attempts", a, b)}
}
`)
	w, err := collect(dir, "", "Outcome")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		got  []word
		want []string
	}{
		{"constants", w.constants, []string{"done", "idle"}},
		{"messages", w.messages, []string{"take care: ", "went well", "went wrong"}},
		{"attributes", w.attributes, []string{"key", "why"}},
		{"keys", w.keys, []string{"field", "more"}},
		{"statuses", w.statuses, []string{"attempts", "given up after"}},
	} {
		if got := texts(c.got); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func texts(list []word) []string {
	out := make([]string, 0, len(list))
	for _, w := range list {
		out = append(out, w.text)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
