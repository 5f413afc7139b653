package fakes

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"sync"
)

// Log keeps everything that is logged, at every level, for a test to search.
// It is safe for use by many goroutines.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{} }

// Logger returns a logger that writes to the log, in the form of
// slog.TextHandler.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler((*logWriter)(l), &slog.HandlerOptions{Level: slog.Level(math.MinInt)}))
}

// Text returns all that was logged.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the records in which each of the given texts occurs, in order;
// all records when none is given.
func (l *Log) Lines(texts ...string) []string {
	var out []string
next:
	for line := range strings.Lines(l.Text()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

// logWriter is the side of a Log that its handler writes to; slog hands over
// one whole record at a time.
type logWriter Log

func (w *logWriter) Write(record []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(record)
}
