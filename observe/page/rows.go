package page

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/provisioner"
)

// row is one application or container.
type row struct {
	kind, name string
	of         string // its model or machine
	state      string
	outcome    string
	attempts   int
	left       int // attempts, of a container that failed
	since      time.Time
	unsettled  time.Time
	next       time.Time
	why        string
	would      string // what a dry run did not do
}

func applicationRow(a provisioner.ApplicationStatus, model string) row {
	return row{
		kind: kindApplication, name: a.Name, of: model,
		state: string(a.State), outcome: string(a.Outcome), attempts: a.Attempts,
		since: a.Since, unsettled: a.UnsettledSince, next: a.Next,
		why: a.Err, would: a.Would,
	}
}

func containerRow(c containerprovisioner.ContainerStatus, machine string) row {
	r := row{
		kind: kindContainer, name: c.ID, of: machine,
		state: string(c.State), outcome: string(c.Outcome), attempts: c.Attempts,
		since: c.Since, unsettled: c.UnsettledSince, next: c.Next,
		why: c.Err,
	}
	if c.Attempts > 0 {
		r.left = c.Left
	}
	return r
}

// rows returns everything that the workers know of.
func rows(live []*shown) []row {
	var out []row
	for _, s := range live {
		switch {
		case s.operators != nil:
			list := s.operators.Applications()
			out = slices.Grow(out, len(list))
			for _, a := range list {
				out = append(out, applicationRow(a, s.of))
			}
		case s.containers != nil:
			list := s.containers.Containers()
			out = slices.Grow(out, len(list))
			for _, c := range list {
				out = append(out, containerRow(c, s.of))
			}
		}
	}
	return out
}

// selection is what a query shows of all rows.
type selection struct {
	rows    []row          // on the page
	page    int            // which one it is
	pages   int            // at least 1
	matched int            // rows on all pages
	all     int            // rows that there are
	counts  map[string]int // by state, whichever is asked for
}

// choose filters, sorts and cuts to one page. It sorts the rows that it is given.
func (q query) choose(all []row) selection {
	out := selection{all: len(all), counts: make(map[string]int)}
	text := strings.ToLower(q.text)
	matched := all[:0:0]
	for _, r := range all {
		if !q.matches(r, text) {
			continue
		}
		out.counts[r.state]++
		if q.state == "" || r.state == q.state || q.state == unsettled && r.state != "settled" {
			matched = append(matched, r)
		}
	}
	slices.SortFunc(matched, q.compare())
	out.matched = len(matched)
	out.pages = max((len(matched)+q.per-1)/q.per, 1)
	// The list may have become shorter since the link was made.
	out.page = min(q.page, out.pages)
	from := (out.page - 1) * q.per
	out.rows = matched[from:min(from+q.per, len(matched))]
	return out
}

// matches reports whether a row is asked for, but for its state.
func (q query) matches(r row, text string) bool {
	if q.kind != "" && q.kind != r.kind {
		return false
	}
	return text == "" ||
		strings.Contains(strings.ToLower(r.name), text) ||
		strings.Contains(strings.ToLower(r.why), text) ||
		strings.Contains(strings.ToLower(r.would), text)
}

// compare returns the order that is asked for. Where it does not tell, it is the
// worst first, which tells always.
func (q query) compare() func(a, b row) int {
	switch q.sort {
	case sortName:
		return func(a, b row) int { return cmp.Or(cmp.Compare(a.name, b.name), worstFirst(a, b)) }
	case sortState:
		order := make(map[string]int)
		for i, state := range states() {
			order[state] = i
		}
		return func(a, b row) int { return cmp.Or(cmp.Compare(order[a.state], order[b.state]), worstFirst(a, b)) }
	case sortAttempts:
		return func(a, b row) int { return cmp.Or(cmp.Compare(b.attempts, a.attempts), worstFirst(a, b)) }
	case sortSince:
		return func(a, b row) int { return cmp.Or(compareTimes(a.since, b.since), worstFirst(a, b)) }
	case sortNext:
		return func(a, b row) int { return cmp.Or(compareTimes(a.next, b.next), worstFirst(a, b)) }
	}
	return worstFirst
}

// compareTimes puts what is earlier first, and what has no time last.
func compareTimes(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(boolToInt(a.IsZero()), boolToInt(b.IsZero()))
	}
	return a.Compare(b)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// worstFirst is the order of the workers' own reports: what needs a person comes
// before what passes by itself, and what has lasted longer before what is new.
func worstFirst(a, b row) int {
	since := compareTimes(a.since, b.since)
	if a.state == "settled" && b.state == "settled" {
		since = 0 // nobody cares; people look for a name
	}
	return cmp.Or(
		cmp.Compare(a.badness(), b.badness()),
		cmp.Compare(b.attempts, a.attempts),
		since,
		cmp.Compare(a.name, b.name),
		cmp.Compare(a.of, b.of),
	)
}

// badness is smallest for what is worst. A pass that is due or under way does not
// mend what the last one found.
func (r row) badness() int {
	switch r.outcome {
	case string(containerprovisioner.OutcomeGivenUp):
		return 0
	case string(provisioner.OutcomePermanent):
		return 1
	case string(provisioner.OutcomePanicked):
		return 2
	case string(provisioner.OutcomeFailed):
		return 3
	case string(provisioner.OutcomeStuck):
		return 4
	case string(provisioner.OutcomeWaiting):
		return 5
	case string(provisioner.OutcomeSettled):
		return 7
	}
	return 6 // new
}
