package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/go-logr/logr"
)

func TestHushedLogsAtDebugOrBelow(t *testing.T) {
	tests := []struct{ level, want slog.Level }{
		{slog.LevelError, slog.LevelDebug},
		{slog.LevelInfo, slog.LevelDebug},
		{slog.LevelDebug, slog.LevelDebug},
		{slog.LevelDebug - 4, slog.LevelDebug - 4},
	}
	for _, test := range tests {
		for _, enabled := range []slog.Level{slog.LevelInfo, slog.LevelDebug, slog.LevelDebug - 4} {
			var out bytes.Buffer
			to := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: enabled})
			slog.New(hushed{to}).With("a", 1).WithGroup("g").Log(context.Background(), test.level, "said", "b", 2)
			if test.want < enabled {
				if out.Len() != 0 {
					t.Errorf("%v at %v: logged %s", test.level, enabled, &out)
				}
				continue
			}
			var got struct {
				Level string
				A     int
				G     struct{ B int }
			}
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatalf("%v at %v: logged %q: %v", test.level, enabled, &out, err)
			}
			if got.Level != test.want.String() || got.A != 1 || got.G.B != 2 {
				t.Errorf("%v at %v: logged %s", test.level, enabled, &out)
			}
		}
	}
}

// client-go takes its logger from the context, errors and verbosity included.
func TestContextCarriesTheHushedLogger(t *testing.T) {
	var out bytes.Buffer
	to := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	logger, err := logr.FromContext(withLogger(context.Background(), to))
	if err != nil {
		t.Fatal(err)
	}
	logger.Error(context.Canceled, "an error")
	logger.Info("news")
	logger.V(4).Info("detail")
	if out.Len() != 0 {
		t.Errorf("logged %s", &out)
	}
}
