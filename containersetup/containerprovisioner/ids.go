package containerprovisioner

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/sutler-dev/sutler/containersetup/container"
)

// maxSkipped is how many ids that are not this worker's are remembered and
// logged, and how many strange instances are.
const maxSkipped = 100

// skipped are the ids that were named and are not this worker's.
type skipped struct {
	ids   map[string]struct{}
	total int // with repetitions
	full  bool
}

// isOurs reports whether the id is that of a container of the worker's type,
// directly on its machine.
func (w *Worker) isOurs(id string) bool {
	parsed, err := container.ParseID(id)
	return err == nil && parsed.Host == w.config.MachineID && parsed.Type == w.config.Type
}

// ours returns the ids that are this worker's, and takes note of the others:
// each is logged once, unless there are very many.
func (w *Worker) ours(ctx context.Context, ids []string) []string {
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if w.isOurs(id) {
			out = append(out, id)
		} else {
			w.skip(ctx, id)
		}
	}
	return out
}

func (w *Worker) skip(ctx context.Context, id string) {
	id = shortened(id)
	w.mu.Lock()
	s := &w.skipped
	s.total++
	_, known := s.ids[id]
	first, last := !known && len(s.ids) < maxSkipped, !known && len(s.ids) == maxSkipped && !s.full
	if first {
		s.ids[id] = struct{}{}
	}
	s.full = s.full || last
	w.mu.Unlock()
	switch {
	case first:
		w.log(ctx, slog.LevelWarn, "skipping what is no container of this type on this machine", id)
	case last:
		w.config.Logger.WarnContext(ctx, "there are more such ids; they are not logged")
	}
}

// shortened returns a copy of an id that is short enough to be shown.
func shortened(id string) string {
	const limit = 64
	if len(id) > limit {
		return strings.ToValidUTF8(id[:limit], "") + "..."
	}
	return strings.Clone(id)
}

func (s *skipped) report() map[string]any {
	list := make([]any, 0, len(s.ids))
	for id := range s.ids {
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return map[string]any{"total": s.total, "ids": list}
}
