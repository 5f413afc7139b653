package kubernetes

import (
	"sync/atomic"
	"time"
)

// counters count what was written since the manager began.
type counters struct {
	created, changed, deleted atomic.Int64
}

// Report is part of worker.Reporter. It tells of the caches, by kind: how many
// objects, whether the first listing is there, and why not, or why nothing is
// heard at the moment, since when; and how many objects were created, changed and
// deleted.
func (m *Manager) Report() map[string]any {
	watches := make(map[string]any, len(m.caches))
	for _, c := range m.caches {
		watch := map[string]any{
			"synced":  c.informer.HasSynced(),
			"objects": len(c.informer.GetStore().ListKeys()),
		}
		if _, since, trouble := c.state(); trouble != nil {
			watch["error"] = trouble.Error()
			watch["since"] = since.UTC().Format(time.RFC3339)
		}
		watches[c.kind.resource()] = watch
	}
	return map[string]any{
		"namespace": m.config.Namespace,
		"watches":   watches,
		"written": map[string]any{
			"created": m.written.created.Load(), "changed": m.written.changed.Load(), "deleted": m.written.deleted.Load(),
		},
	}
}
