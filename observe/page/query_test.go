package page

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQueryIsReadOrRefused(t *testing.T) {
	defaults := query{sort: sortWorst, page: 1, per: defaultPer}
	with := func(change func(*query)) query {
		q := defaults
		change(&q)
		return q
	}
	for raw, want := range map[string]query{
		"":                   defaults,
		"state=&kind=&q=":    defaults,
		"state=failed":       with(func(q *query) { q.state = "failed" }),
		"state=unsettled":    with(func(q *query) { q.state = unsettled }),
		"kind=container":     with(func(q *query) { q.kind = kindContainer }),
		"q=+my+SQL%20":       with(func(q *query) { q.text = "my SQL" }),
		"q=%3Cb%3E%26":       with(func(q *query) { q.text = "<b>&" }),
		"sort=next&per=1000": with(func(q *query) { q.sort, q.per = sortNext, 1000 }),
		"page=7&refresh=10":  with(func(q *query) { q.page, q.refresh = 7, 10 }),
		"refresh=0":          defaults,
	} {
		if got, err := parseQuery(raw); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{
		"state=fialed":                        `state "fialed" not valid`,
		"state=failed&state=stuck":            `"state", given 2 times,`,
		"stat=failed":                         `parameter "stat"`,
		"x=":                                  `parameter "x"`,
		"kind=pod":                            "want one of application, container",
		"sort=worst%20first":                  "sort",
		"page=0":                              "a number from 1",
		"page=-1":                             "page",
		"page=1e3":                            "page",
		"page=%2B1":                           "page",
		"page=99999999999999999":              "page",
		"per=1001":                            "from 1 to 1000",
		"refresh=0.5":                         "refresh",
		"refresh=3601":                        "refresh",
		"q=%ff":                               "no text",
		"q=a%00b":                             "no text",
		"q=" + strings.Repeat("x", maxText+1): "q of 201 bytes",
		"q=%zz":                               "encoding",
		"a;b":                                 "encoding",
		"state=" + strings.Repeat("y", 1000):  "yyy...",
	} {
		_, err := parseQuery(raw)
		if err == nil {
			t.Errorf("%q is no error", raw)
			continue
		}
		if got := err.Error(); !strings.Contains(got, strings.TrimSuffix(want, " not valid")) || len(got) > 300 {
			t.Errorf("%q: %q, want %q in it", raw, got, want)
		}
	}
}

func TestLinksOfAQueryKeepTheRest(t *testing.T) {
	q, err := parseQuery("state=failed&q=a%26b&page=3&per=25&refresh=10&sort=next")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ got, want string }{
		"itself":     {q.href(), "?page=3&per=25&q=a%26b&refresh=10&sort=next&state=failed"},
		"state":      {q.withState("stuck").href(), "?per=25&q=a%26b&refresh=10&sort=next&state=stuck"},
		"sort":       {q.withSort(sortWorst).href(), "?per=25&q=a%26b&refresh=10&state=failed"},
		"page":       {q.withPage(4).href(), "?page=4&per=25&q=a%26b&refresh=10&sort=next&state=failed"},
		"no refresh": {q.withRefresh(0).href(), "?page=3&per=25&q=a%26b&sort=next&state=failed"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", name, test.got, test.want)
		}
	}
}

// Whatever a browser sends is either refused in few words, or is a query within
// its bounds, whose address means the same.
func FuzzQuery(f *testing.F) {
	for _, raw := range []string{
		"", "state=failed&kind=application&q=x&sort=name&page=2&per=10&refresh=5",
		"q=%F0%9F%92%A5", "q=%ff", "page=+1", "state=a&state=b", "%", "a;b", "q= x ", "per=01",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw)
		if err != nil {
			if len(err.Error()) > 500 || !utf8.ValidString(err.Error()) {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if q.page < 1 || q.page > maxPage || q.per < 1 || q.per > maxPer || q.refresh < 0 || q.refresh > maxRefresh || len(q.text) > maxText {
			t.Errorf("out of bounds: %+v", q)
		}
		if _, err := url.Parse(q.href()); err != nil {
			t.Error(err)
		}
		again, err := parseQuery(q.String())
		if err != nil || again != q {
			t.Errorf("%+v has the address %s, which means %+v, %v", q, q, again, err)
		}
		q.choose(nil)
	})
}
