// Package page shows an agent's workers to people: one http.Handler, for the
// agent's introspection socket, with a page of what is settled, what is not, why
// and since when.
//
// # Use
//
// [New] makes a [Page]. What [Page.Operators] and [Page.Setup] return goes into
// the Metrics of the workers' configs, which show themselves to the page when
// they start. Several workers may share it, as those of several models do; one
// that is started again takes the place of its predecessor.
//
//	/             applications and containers, the worst first, and container types
//	/report       all reports: YAML, or JSON with ?format=json or by the Accept header
//	/metrics      Config.Metrics, if there is one
//	/healthz      200: the handler answers
//	/ready        200, or 503 with the reasons
//	/style.css    what / looks like
//	/icon.svg
//
// Links are relative, so the handler may be mounted below a path, with
// http.StripPrefix and a slash at the end.
//
// # The page
//
// It has no script. Filters, order and the refreshing are links and a form that
// is sent with GET, so that what is looked at has an address: state, kind, q (a
// text in the name or the reason, whatever its case), sort, page, per (rows a
// page; 100, at most 1,000) and refresh (seconds). What is none of these, or
// no value of theirs, is refused with 400 and what would be right: a filter that
// was misspelt must not look like a world in which all is well. A page beyond the
// last one is the last one, since the list grows shorter while it is looked at.
//
// It does not refresh itself unless asked to: a page that changes while it is
// read loses its reader's place, and each refresh looks at every application.
//
// # Ready
//
// The page is ready when, of each kind of worker that it was made to show by a
// call of [Page.Operators] or [Page.Setup], at least one is there, and each that
// is there has had the first event, the baseline, of all its watchers; a
// container-setup handler, when it watches or has prepared all. An application
// that fails is no reason: it is shown, and no restart mends it. A worker that
// ended is a reason until another one takes its place, or, when none does within
// a quarter of an hour, until it is forgotten. Config.Ready adds to that.
//
// # Reports
//
// A report is asked for in a goroutine of its own, since a reporter is other
// people's code. One that panics says so in its section of /report, one that
// gives no answer within Config.ReportTimeout, too; the others are shown all the
// same. While a call is out, that reporter is not called again, so there is at
// most one goroutine for each, which ends when the reporter returns. Nobody waits
// for it.
//
// # Safety
//
// The handler reads and never changes anything; only GET and HEAD are answered.
// There is no log-in: whoever reaches the socket may read. Serve it on a unix
// socket of mode 0600. Over TCP, the Host header must be an address, localhost or
// one of Config.Hosts, so that no web site can have a browser read it under a
// name of its own. A content security policy allows nothing but the page's own
// style and form; pages may not be framed, stored, or told of to other sites.
// What workers say is shown as text.
//
// # Secrets
//
// Workers keep secrets out of their reports, and a facade.Secret in one is shown
// as it prints: redacted. Structs in a report are shown as they print, too, and
// bytes only by their number.
//
// # Concurrency
//
// Everything may be used by many goroutines at once. A Page has no goroutines but
// those above, and needs no closing.
package page
