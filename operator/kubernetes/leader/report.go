package leader

import "time"

// Report is part of worker.Reporter. It says whether this agent leads, how many
// wrapped workers run under it, and what the Lease said when it was last read or
// written: holder, since when, last renewal (both by the holder's clock) and how
// often the holder changed. "error" is what goes wrong now.
func (w *Worker) Report() map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	report := map[string]any{
		"lease":      w.config.Namespace + "/" + w.config.Name,
		"identity":   w.config.Identity,
		"leading":    w.term.Leading(),
		"dependents": w.term.inside(),
	}
	if w.record.HolderIdentity != "" {
		report["holder"] = w.record.HolderIdentity
		report["since"] = w.record.AcquireTime.UTC().Format(time.RFC3339)
		report["renewed"] = w.record.RenewTime.UTC().Format(time.RFC3339)
		report["transitions"] = w.record.LeaderTransitions
	}
	if w.trouble.err != nil {
		report["error"] = w.trouble.err.Error()
	}
	return report
}
