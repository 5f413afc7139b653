package page

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/containersetup/containerprovisioner"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestEveryStateIsShown(t *testing.T) {
	known := states()
	for _, s := range provisioner.States() {
		if !slices.Contains(known, string(s)) {
			t.Errorf("applications can be %s, which nobody can filter by", s)
		}
	}
	for _, s := range containerprovisioner.States() {
		if !slices.Contains(known, string(s)) {
			t.Errorf("containers can be %s, which nobody can filter by", s)
		}
	}
	for _, s := range known {
		if stateClass(s) == "" {
			t.Errorf("%s has no colour", s)
		}
	}
}

func TestEveryOutcomeHasARank(t *testing.T) {
	var outcomes []string
	for _, o := range provisioner.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	for _, o := range containerprovisioner.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	for _, o := range outcomes {
		// What is forgotten is not there.
		if (row{outcome: o}).badness() == (row{}).badness() && o != "forgotten" {
			t.Errorf("%q is ranked as what is new", o)
		}
	}
}

func TestWorstIsFirst(t *testing.T) {
	start := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	want := []row{
		{name: "given up", outcome: "given up"},
		{name: "permanent", outcome: "permanent", attempts: 1},
		{name: "panicked", outcome: "panicked", attempts: 1},
		{name: "failed often", outcome: "failed", attempts: 5, since: start.Add(2 * time.Minute)},
		{name: "failed long", outcome: "failed", attempts: 2, since: start},
		{name: "failed lately", outcome: "failed", attempts: 2, since: start.Add(time.Minute)},
		{name: "stuck", outcome: "stuck"},
		{name: "waiting", outcome: "waiting"},
		{name: "new"},
		{name: "settled a", outcome: "settled"},
		{name: "settled b", outcome: "settled", of: "1"},
		{name: "settled b", outcome: "settled", of: "2"},
	}
	got := slices.Clone(want)
	seed := rand.Uint64()
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	if got = (query{sort: sortWorst, page: 1, per: 100}).choose(got).rows; !slices.Equal(got, want) {
		t.Errorf("seed %d:\ngot  %v\nwant %v", seed, got, want)
	}
}

func TestOrders(t *testing.T) {
	start := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	all := []row{
		{name: "b", state: "settled", outcome: "settled", since: start, next: start.Add(time.Hour)},
		{name: "c", state: "failed", outcome: "failed", attempts: 9, since: start.Add(time.Minute)},
		{name: "a", state: "stuck", outcome: "stuck", next: start.Add(time.Second)},
	}
	for order, want := range map[string]string{
		sortWorst: "c a b", sortName: "a b c", sortState: "c a b",
		sortAttempts: "c a b", sortSince: "b c a", sortNext: "a b c",
	} {
		var got []string
		for _, r := range (query{sort: order, page: 1, per: 100}).choose(slices.Clone(all)).rows {
			got = append(got, r.name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", order, got, want)
		}
	}
	for _, order := range sorts() {
		if _, err := parseQuery("sort=" + order); err != nil {
			t.Error(err)
		}
	}
}

func TestPagesHaveEveryRowOnce(t *testing.T) {
	var all []row
	for n := range 95 {
		all = append(all, row{
			name: fmt.Sprintf("web%02d", n), kind: kindApplication,
			state: cmp.Or([]string{"", "failed"}[n%2], "settled"), why: []string{"", "Disk is FULL"}[n%2],
		})
	}
	base := query{sort: sortName, page: 1, per: 10}
	seen := map[string]int{}
	for n := 1; n <= 10; n++ {
		s := base.withPage(n).choose(slices.Clone(all))
		if s.page != n || s.pages != 10 || s.matched != 95 || s.all != 95 {
			t.Fatalf("page %d: %d of %d, %d of %d rows", n, s.page, s.pages, s.matched, s.all)
		}
		for _, r := range s.rows {
			seen[r.name]++
		}
	}
	if len(seen) != 95 {
		t.Errorf("%d rows are on the pages, want 95", len(seen))
	}
	if s := base.withPage(1000).choose(slices.Clone(all)); s.page != 10 || len(s.rows) != 5 {
		t.Errorf("beyond the last page: page %d with %d rows, want the last with 5", s.page, len(s.rows))
	}

	for name, test := range map[string]struct {
		q                        query
		matched, failed, settled int
	}{
		"all":                       {query{}, 95, 47, 48},
		"state":                     {query{state: "failed"}, 47, 47, 48},
		"unsettled":                 {query{state: unsettled}, 47, 47, 48},
		"text in names":             {query{text: "EB1"}, 10, 5, 5},
		"text in reasons":           {query{text: "disk is"}, 47, 47, 0},
		"text and state":            {query{text: "web1", state: "settled"}, 5, 5, 5},
		"kind":                      {query{kind: kindContainer}, 0, 0, 0},
		"nothing is of a state yet": {query{state: "stuck"}, 0, 47, 48},
	} {
		test.q.page, test.q.per = 1, 100
		s := test.q.choose(slices.Clone(all))
		if s.matched != test.matched || s.counts["failed"] != test.failed || s.counts["settled"] != test.settled {
			t.Errorf("%s: %d rows, counts %v; want %d, %d failed, %d settled", name, s.matched, s.counts, test.matched, test.failed, test.settled)
		}
		if s.pages != 1 || s.page != 1 {
			t.Errorf("%s: page %d of %d", name, s.page, s.pages)
		}
	}
}

func TestTimesAndNumbersAsPeopleSayThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s", 90 * time.Second: "1 min",
		59*time.Minute + 59*time.Second: "59 min", 47 * time.Hour: "47 h", 50 * 24 * time.Hour: "50 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 10000: "10,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	now := time.Now()
	if got := ago(time.Time{}, now); got != (when{}) {
		t.Errorf("no time is %v", got)
	}
	if got := ahead(now.Add(-time.Second), now).Text; got != "now" {
		t.Errorf("what is due is %s", got)
	}
	if got := excerpt(strings.Repeat("€", 1000)); len(got) > maxWhy+60 || strings.Contains(got, "\uFFFD") {
		t.Errorf("a long reason is %q", got)
	}
}
