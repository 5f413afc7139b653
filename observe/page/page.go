package page

import (
	"context"
	_ "embed" // what the page is made of
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var styleCSS []byte

//go:embed icon.svg
var iconSVG []byte

// Page is an http.Handler that shows workers. All its methods may be called from
// many goroutines at once.
type Page struct {
	config   Config
	hosts    []string
	template *template.Template
	routes   map[string]http.HandlerFunc
	workers  workers
	agent    guard[map[string]any] // around Config.Reporter
	ready    guard[string]         // around Config.Ready
}

// New returns a page that shows no worker yet. It returns errors.NotValid, naming
// the field, for a config that does not validate.
func New(config Config) (*Page, error) {
	if err := config.Validate(); err != nil {
		return nil, errors.Annotate(err, "page config")
	}
	config = config.withDefaults()
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, errors.Trace(err)
	}
	p := &Page{config: config, template: t}
	for _, host := range config.Hosts {
		p.hosts = append(p.hosts, bareHost(host))
	}
	p.workers.clock = config.Clock
	p.routes = map[string]http.HandlerFunc{
		"/":          p.servePage,
		"/report":    p.serveReport,
		"/healthz":   p.serveHealth,
		"/ready":     p.serveReady,
		"/style.css": p.serveFile("text/css; charset=utf-8", styleCSS),
		"/icon.svg":  p.serveFile("image/svg+xml", iconSVG),
	}
	if config.Metrics != nil {
		p.routes["/metrics"] = p.serveMetrics
	}
	return p, nil
}

// maxQuery is how long a query may be. The longest that the page's own form makes
// is shorter.
const maxQuery = 2048

// policy is the content security policy of all answers.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")

	route, ok := p.routes[r.URL.Path]
	switch {
	case !p.allowed(r):
		p.refuse(w, r, http.StatusMisdirectedRequest, "this host name is not one of the agent's: see Config.Hosts")
	case !ok:
		p.refuse(w, r, http.StatusNotFound, "there is no such page")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		p.refuse(w, r, http.StatusMethodNotAllowed, "only GET and HEAD are answered: nothing can be changed here")
	case len(r.URL.RawQuery) > maxQuery:
		p.refuse(w, r, http.StatusRequestURITooLong, "the query is too long")
	default:
		route(w, r)
	}
}

// allowed reports whether a request may be answered to whoever is named as its
// host. A web site can give its own name this agent's address, and has a browser
// read the answer then; it can do so neither with an address nor over a unix
// socket.
func (p *Page) allowed(r *http.Request) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	host := r.Host
	if host == "" {
		return true // no browser omits it
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = bareHost(host)
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(p.hosts, host)
}

// bareHost returns a name as it is compared.
func bareHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// refuse says why there is no answer.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	p.answer(w, r, status, "text/plain; charset=utf-8", []byte(why+"\n"))
}

// answer writes an answer that is known as a whole, so that nothing half-made is
// ever seen.
func (p *Page) answer(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (p *Page) serveFile(contentType string, content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, r, http.StatusOK, contentType, content)
	}
}

func (p *Page) serveHealth(w http.ResponseWriter, r *http.Request) {
	p.answer(w, r, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
}

// serveMetrics keeps a panic of the metrics from being the whole server's.
func (p *Page) serveMetrics(w http.ResponseWriter, r *http.Request) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v) // the server's own word for an answer that is to be cut off
		}
		p.panicked(r.Context(), "metrics", v)
		// Too late if something was written; then it ends there.
		w.WriteHeader(http.StatusInternalServerError)
	}()
	p.config.Metrics.ServeHTTP(w, r)
}

func (p *Page) panicked(ctx context.Context, what string, v any) {
	p.config.Logger.ErrorContext(ctx, "panic while somebody looked", "asked", what, "error", sprint(v))
}
