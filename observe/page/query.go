package page

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/juju/errors"
)

// query is what somebody wants to see. The zero value of a field is its default.
type query struct {
	state   string // one of states(), or unsettled
	kind    string // application or container
	text    string // in the name or the reason
	sort    string // one of sorts()
	page    int    // from 1
	per     int    // rows a page
	refresh int    // seconds; 0 for not
}

const (
	unsettled       = "unsettled" // any state but settled
	kindApplication = "application"
	kindContainer   = "container"

	sortWorst    = "worst"
	sortName     = "name"
	sortState    = "state"
	sortAttempts = "attempts"
	sortSince    = "since"
	sortNext     = "next"

	defaultPer = 100
	maxPer     = 1000
	maxPage    = 1_000_000
	maxRefresh = 3600
	maxText    = 200 // bytes
)

// states are those of both kinds of worker, the worst first.
func states() []string {
	return []string{"error", "failed", "stuck", "waiting", "running", "queued", "settled"}
}

func sorts() []string {
	return []string{sortWorst, sortName, sortState, sortAttempts, sortSince, sortNext}
}

// parseQuery reads a query, or says what is wrong with it. A parameter that is
// empty, as a form sends it, is one that is not there.
func parseQuery(raw string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, errors.NotValidf("the query's encoding")
	}
	q := query{sort: sortWorst, page: 1, per: defaultPer}
	for key, given := range values {
		if len(given) != 1 {
			return query{}, errors.NotValidf("%q, given %d times,", shortened(key), len(given))
		}
		value := given[0]
		if value == "" && isParameter(key) {
			continue
		}
		switch key {
		case "state":
			q.state, err = oneOf(key, value, append(states(), unsettled))
		case "kind":
			q.kind, err = oneOf(key, value, []string{kindApplication, kindContainer})
		case "sort":
			q.sort, err = oneOf(key, value, sorts())
		case "q":
			q.text, err = searched(value)
		case "page":
			q.page, err = number(key, value, 1, maxPage)
		case "per":
			q.per, err = number(key, value, 1, maxPer)
		case "refresh":
			q.refresh, err = number(key, value, 0, maxRefresh)
		default:
			err = errors.NotValidf("parameter %q (want %s)", shortened(key), strings.Join(parameters(), ", "))
		}
		if err != nil {
			return query{}, err
		}
	}
	return q, nil
}

func parameters() []string {
	return []string{"state", "kind", "q", "sort", "page", "per", "refresh"}
}

func isParameter(key string) bool { return slices.Contains(parameters(), key) }

func oneOf(key, value string, allowed []string) (string, error) {
	if !slices.Contains(allowed, value) {
		return "", errors.NotValidf("%s %q (want one of %s)", key, shortened(value), strings.Join(allowed, ", "))
	}
	return value, nil
}

func number(key, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	// Digits only: "+1" is a number, too, and another address of the same page.
	if err != nil || n < least || n > most || strconv.Itoa(n) != value {
		return 0, errors.NotValidf("%s %q (want a number from %d to %d)", key, shortened(value), least, most)
	}
	return n, nil
}

func searched(text string) (string, error) {
	switch {
	case len(text) > maxText:
		return "", errors.NotValidf("q of %d bytes (want at most %d)", len(text), maxText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", errors.NotValidf("q that is no text")
	}
	return strings.TrimSpace(text), nil
}

// shortened is a part of a request, for a message about it.
func shortened(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "..."
	}
	return s
}

// String is the query as an address has it, without what is the default.
func (q query) String() string {
	values := url.Values{}
	set := func(key, value, otherwise string) {
		if value != otherwise {
			values.Set(key, value)
		}
	}
	set("state", q.state, "")
	set("kind", q.kind, "")
	set("q", q.text, "")
	set("sort", q.sort, sortWorst)
	set("page", strconv.Itoa(q.page), "1")
	set("per", strconv.Itoa(q.per), strconv.Itoa(defaultPer))
	set("refresh", strconv.Itoa(q.refresh), "0")
	return values.Encode()
}

// href is a link to what the query shows, relative to the page itself.
func (q query) href() string { return "?" + q.String() }

// The same query but for one thing. What changes which rows there are, or their
// order, goes back to the first page.

func (q query) withState(state string) query { q.state, q.page = state, 1; return q }
func (q query) withSort(sort string) query   { q.sort, q.page = sort, 1; return q }
func (q query) withPage(page int) query      { q.page = page; return q }
func (q query) withRefresh(s int) query      { q.refresh = s; return q }

// filtered reports whether the query leaves anything out.
func (q query) filtered() bool { return q.state != "" || q.kind != "" || q.text != "" }

// describe says what is left out, for people.
func (q query) describe() string {
	var parts []string
	switch q.state {
	case "":
	case unsettled:
		parts = append(parts, "not settled")
	default:
		parts = append(parts, q.state)
	}
	if q.kind != "" {
		parts = append(parts, q.kind+"s")
	}
	if q.text != "" {
		parts = append(parts, fmt.Sprintf("with %q", q.text))
	}
	return strings.Join(parts, " ")
}
