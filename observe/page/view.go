package page

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sutler-dev/sutler/containersetup"
	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/provisioner"
)

// view is what page.html shows.
type view struct {
	Title     string
	Headline  string
	Now       string
	Refresh   int
	Refreshes []link
	Unready   []string
	Types     []typeView
	ListTitle string
	Totals    []totalView
	Form      formView
	Caption   string
	Columns   []columnView
	Rows      []rowView
	Pager     *pagerView
	Workers   []workerView
	Metrics   bool
}

type link struct {
	Label, Href string
	Current     bool
}

type totalView struct {
	link
	Count string
	Class string
}

type formView struct {
	Text    string
	Selects []selectView
	Clear   string // a link that leaves nothing out; empty if nothing is
}

type selectView struct {
	Name, Label string
	Options     []optionView
}

type optionView struct {
	Value, Label string
	Current      bool
}

type columnView struct {
	Label, Href string
	Sorted      string // as aria-sort has it
}

// when is a time: roughly for people, exactly for who points at it.
type when struct{ Text, Stamp, Title string }

type rowView struct {
	Name, Of              string
	State, Outcome, Class string
	Attempts              string
	Since, Next           when
	Why                   string
}

type typeView struct {
	Name, Of, Phase, Class  string
	Attempts, Waiting, Lock string
	Since, Next             when
	Why                     string
}

type workerView struct {
	Name                           string
	Started, Event, Resynced, Next when
	Notes                          string
}

type pagerView struct {
	Page, Pages                 string
	First, Previous, Next, Last string
}

func (p *Page) servePage(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		p.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	var out bytes.Buffer
	if err := p.template.Execute(&out, p.view(q, p.unready(r.Context()))); err != nil {
		p.config.Logger.ErrorContext(r.Context(), "page not rendered", "error", err.Error())
		p.refuse(w, r, http.StatusInternalServerError, "the page could not be rendered; the log says why")
		return
	}
	p.answer(w, r, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
}

// view looks at the workers.
func (p *Page) view(q query, unready []string) view {
	now := p.config.Clock.Now()
	live, _, _ := p.workers.list()
	// A name is enough where all are of one model or machine.
	of := map[kind]int{}
	for _, s := range live {
		if s.kind != kindContainers {
			of[s.kind]++
		}
	}
	all := rows(live)
	s := q.choose(all)
	v := view{
		Title:     p.config.Title,
		Headline:  headline(all),
		Now:       stamp(now),
		Refresh:   q.refresh,
		Refreshes: refreshes(q),
		Unready:   unready,
		ListTitle: listTitle(live),
		Totals:    totals(q, s),
		Form:      form(q),
		Caption:   caption(q, s),
		Columns:   columns(q),
		Pager:     pager(q, s),
		Metrics:   p.config.Metrics != nil,
	}
	for _, r := range s.rows {
		v.Rows = append(v.Rows, viewRow(r, now, of[kindOperators] > 1))
	}
	for _, s := range live {
		v.Workers = append(v.Workers, viewWorker(s, now))
		if s.setup != nil {
			v.Types = append(v.Types, viewTypes(s.setup.Status(), now, of[kindSetup] > 1)...)
		}
	}
	return v
}

// headline is what one wants to know first.
func headline(all []row) string {
	open := 0
	for _, r := range all {
		if r.state != "settled" {
			open++
		}
	}
	switch {
	case len(all) == 0:
		return "nothing to show yet"
	case open == 0:
		return fmt.Sprintf("all settled (%s)", thousands(len(all)))
	}
	return fmt.Sprintf("%s of %s not settled", thousands(open), thousands(len(all)))
}

func listTitle(live []*shown) string {
	has := func(k kind) bool {
		return slices.ContainsFunc(live, func(s *shown) bool { return s.kind == k })
	}
	operators, containers := has(kindOperators), has(kindContainers) || has(kindSetup)
	switch {
	case operators && !containers:
		return "Applications"
	case containers && !operators:
		return "Containers"
	}
	return "Applications and containers"
}

func refreshes(q query) []link {
	var out []link
	for _, seconds := range []int{0, 10, 60} {
		label := "off"
		if seconds > 0 {
			label = fmt.Sprintf("%d s", seconds)
		}
		out = append(out, link{label, q.withRefresh(seconds).href(), q.refresh == seconds})
	}
	return out
}

func totals(q query, s selection) []totalView {
	sum := 0
	for _, n := range s.counts {
		sum += n
	}
	total := func(state, label, class string, n int) totalView {
		if n == 0 {
			class = "" // nothing that needs an eye
		}
		return totalView{link{label, q.withState(state).href(), q.state == state}, thousands(n), class}
	}
	out := []totalView{
		total("", "in all", "", sum),
		total(unsettled, "not settled", "", sum-s.counts["settled"]),
	}
	for _, state := range states() {
		out = append(out, total(state, state, stateClass(state), s.counts[state]))
	}
	return out
}

func stateClass(state string) string {
	switch state {
	case "error", "failed", "stuck":
		return "bad"
	case "waiting":
		return "odd"
	case "running", "queued":
		return "busy"
	case "settled":
		return "good"
	}
	return ""
}

func form(q query) formView {
	choice := func(name, label, current string, values []string, labels ...string) selectView {
		out := selectView{Name: name, Label: label}
		for i, value := range values {
			shown := value
			if i < len(labels) {
				shown = labels[i]
			}
			out.Options = append(out.Options, optionView{value, shown, value == current})
		}
		return out
	}
	pers := []string{"25", "100", "500", "1000"}
	if per := strconv.Itoa(q.per); !slices.Contains(pers, per) {
		pers = append(pers, per)
	}
	out := formView{
		Text: q.text,
		Selects: []selectView{
			choice("state", "State", q.state, append([]string{"", unsettled}, states()...), "any", "not settled"),
			choice("kind", "Kind", q.kind, []string{"", kindApplication, kindContainer}, "any", "applications", "containers"),
			choice("sort", "Order", q.sort, sorts(), "worst first", "name", "state", "most attempts", "longest so", "next look"),
			choice("per", "Rows", strconv.Itoa(q.per), pers),
		},
	}
	if q.filtered() {
		out.Clear = query{sort: q.sort, page: 1, per: q.per, refresh: q.refresh}.href()
	}
	return out
}

func caption(q query, s selection) string {
	what := "in all"
	if q.filtered() {
		what = q.describe()
	}
	if s.matched == 0 {
		if s.all == 0 {
			return "None is known yet."
		}
		return fmt.Sprintf("Nothing found for %s; %s are left out.", what, thousands(s.all))
	}
	from := (s.page-1)*q.per + 1
	return fmt.Sprintf("%s to %s of %s %s", thousands(from), thousands(from+len(s.rows)-1), thousands(s.matched), what)
}

func columns(q query) []columnView {
	column := func(label, sort, direction string) columnView {
		out := columnView{Label: label, Href: q.withSort(sort).href()}
		if q.sort == sort {
			out.Sorted = direction
		}
		return out
	}
	return []columnView{
		column("Name", sortName, "ascending"),
		column("State", sortState, "other"),
		column("Attempts", sortAttempts, "descending"),
		column("Since", sortSince, "ascending"),
		column("Next", sortNext, "ascending"),
		{Label: "Why"},
	}
}

func pager(q query, s selection) *pagerView {
	if s.pages == 1 {
		return nil
	}
	out := &pagerView{Page: thousands(s.page), Pages: thousands(s.pages)}
	if s.page > 1 {
		out.First, out.Previous = q.withPage(1).href(), q.withPage(s.page-1).href()
	}
	if s.page < s.pages {
		out.Next, out.Last = q.withPage(s.page+1).href(), q.withPage(s.pages).href()
	}
	return out
}

func viewRow(r row, now time.Time, ofModel bool) rowView {
	v := rowView{
		Name:  r.name,
		State: r.state, Class: stateClass(r.state),
		Since: ago(r.since, now), Next: ahead(r.next, now),
		Why: excerpt(r.why),
	}
	if ofModel && r.kind == kindApplication {
		v.Of = r.of
	}
	// The state says it already for most; what is being looked at may have a
	// past worth seeing.
	if r.outcome != "" && r.outcome != r.state {
		v.Outcome = r.outcome
	}
	if r.attempts > 0 {
		v.Attempts = strconv.Itoa(r.attempts)
		if r.left > 0 {
			v.Attempts += fmt.Sprintf(" (%d left)", r.left)
		}
	}
	if !r.unsettled.IsZero() && !r.unsettled.Equal(r.since) && v.Since.Stamp != "" {
		v.Since.Title += ", not settled since " + stamp(r.unsettled)
	}
	if r.would != "" {
		v.Why = strings.TrimPrefix(v.Why+"\nwould: "+excerpt(r.would), "\n")
	}
	return v
}

func viewTypes(status containersetup.Status, now time.Time, ofMachine bool) (out []typeView) {
	for t, s := range status.Types {
		v := typeView{
			Name: string(t), Phase: string(s.Phase), Class: phaseClass(s),
			Since: ago(s.Since, now), Next: ahead(s.Next, now),
			Why: excerpt(s.Err),
		}
		if ofMachine {
			v.Of = "machine " + status.MachineID
		}
		if s.Attempts > 0 {
			v.Attempts = strconv.Itoa(s.Attempts)
		}
		if s.Waiting > 0 {
			v.Waiting = thousands(s.Waiting)
		}
		if s.LockWait >= time.Second {
			v.Lock = roughly(s.LockWait)
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b typeView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func phaseClass(s containersetup.TypeStatus) string {
	switch {
	case s.Phase == containersetup.PhaseReady:
		return "good"
	case s.Phase == containersetup.PhaseIdle:
		return ""
	case s.Err != "":
		return "bad"
	}
	return "busy"
}

func viewWorker(s *shown, now time.Time) workerView {
	v := workerView{Name: s.String(), Started: ago(s.since, now)}
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case s.operators != nil:
		status := s.operators.Status()
		var last time.Time
		for _, watcher := range status.Watchers {
			last = later(last, watcher.LastEvent)
		}
		v.Event, v.Resynced, v.Next = ago(last, now), ago(status.Resynced, now), ahead(status.NextResync, now)
		if status.Saturated {
			note("the resync before was not through: Concurrency is too low")
		}
		if !status.CertificateExpires.IsZero() {
			note("the first certificate ends %s", ahead(status.CertificateExpires, now).Text)
		}
		noteOperators(status, note)
	case s.containers != nil:
		status := s.containers.Status()
		var last time.Time
		for _, watcher := range status.Watchers {
			last = later(last, watcher.LastEvent)
		}
		v.Event, v.Resynced, v.Next = ago(last, now), ago(status.Resynced, now), ahead(status.NextResync, now)
		noteContainers(status, note)
	default:
		status := s.setup.Status()
		if status.Watching {
			note("waits for more types to be asked for")
		}
		if status.Refused > 0 {
			note("%s containers cannot be had here", thousands(status.Refused))
		}
		if status.Skipped > 0 {
			note("%s ids are not of this machine", thousands(status.Skipped))
		}
		if status.Err != "" {
			note("%s", excerpt(oneLine(status.Err)))
		}
	}
	v.Notes = strings.Join(notes, "; ")
	return v
}

func noteOperators(status provisioner.Status, note func(string, ...any)) {
	if !status.Listed.IsZero() {
		note("operators listed at %s", stamp(status.Listed))
	}
}

func noteContainers(status containerprovisioner.Status, note func(string, ...any)) {
	if status.Starting > 0 {
		note("%d starting", status.Starting)
	}
	if status.Stopping > 0 {
		note("%d stopping", status.Stopping)
	}
	if !status.Listed.IsZero() {
		note("%s instances at %s", thousands(status.Instances), stamp(status.Listed))
	}
	if status.NotRunning > 0 {
		note("%s of them not running", thousands(status.NotRunning))
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ago is a time in the past.
func ago(t, now time.Time) when {
	if t.IsZero() {
		return when{}
	}
	return when{Text: roughly(now.Sub(t)) + " ago", Stamp: stamp(t), Title: stamp(t)}
}

// ahead is a time to come, which may just have come.
func ahead(t, now time.Time) when {
	if t.IsZero() {
		return when{}
	}
	text := "now"
	if left := t.Sub(now); left > 0 {
		text = "in " + roughly(left)
	}
	return when{Text: text, Stamp: stamp(t), Title: stamp(t)}
}
