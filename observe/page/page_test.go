package page

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
	"github.com/sutler-dev/sutler/provisioner"
)

func TestConfigIsValidated(t *testing.T) {
	good := Config{Clock: clock.WallClock}
	for want, change := range map[string]func(*Config){
		"":                       func(*Config) {},
		"nil Clock":              func(c *Config) { c.Clock = nil },
		"negative ReportTimeout": func(c *Config) { c.ReportTimeout = -1 },
		`"agent:80" in Hosts`:    func(c *Config) { c.Hosts = []string{"agent", "agent:80"} },
		`"" in Hosts`:            func(c *Config) { c.Hosts = []string{""} },
		`"*.lan" in Hosts`:       func(c *Config) { c.Hosts = []string{"*.lan"} },
	} {
		config := good
		change(&config)
		_, err := New(config)
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// paths are all that are answered.
func paths() []string {
	return []string{"/", "/report", "/metrics", "/healthz", "/ready", "/style.css", "/icon.svg"}
}

func withMetrics(w *world) {
	w.config.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("sutler_passes_total 7\n"))
	})
}

func TestNothingButReadingIsAnswered(t *testing.T) {
	story(t, func(w *world) {
		withMetrics(w)
		for _, path := range paths() {
			for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "NONSENSE"} {
				answer := w.request(method, path)
				if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != "GET, HEAD" {
					t.Errorf("%s %s: %d, allowed %q", method, path, answer.Code, answer.Header().Get("Allow"))
				}
			}
			get, head := w.request(http.MethodGet, path), w.request(http.MethodHead, path)
			if get.Code != http.StatusOK || head.Code != http.StatusOK {
				t.Errorf("%s: GET %d, HEAD %d", path, get.Code, head.Code)
			}
			if path != "/metrics" && (head.Body.Len() > 0 || head.Header().Get("Content-Length") != fmt.Sprint(get.Body.Len())) {
				t.Errorf("%s: HEAD has %d bytes and says %s, GET has %d", path, head.Body.Len(), head.Header().Get("Content-Length"), get.Body.Len())
			}
		}
		w.shows(w.get("/metrics", http.StatusOK), "sutler_passes_total 7")
	})
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	story(t, func(w *world) {
		for _, path := range []string{"/index.html", "/report/", "/metrics", "//", "/style.css/..", "/%2e%2e/etc/passwd", "/favicon.ico", "/debug/pprof/"} {
			w.get(path, http.StatusNotFound)
		}
		w.hides(w.get("/", http.StatusOK), `href="metrics"`)
	})
}

func TestEveryAnswerIsGuarded(t *testing.T) {
	story(t, func(w *world) {
		withMetrics(w)
		for _, target := range append(paths(), "/none", "/?state=x", "/?"+strings.Repeat("q", maxQuery+1)) {
			header := w.request(http.MethodGet, target).Header()
			for key, want := range map[string]string{
				"Content-Security-Policy":      "default-src 'none'",
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
				"Cache-Control":                "no-store",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := header.Get(key); !strings.HasPrefix(got, want) {
					t.Errorf("%.30s: %s is %q, want %s", target, key, got, want)
				}
			}
			for _, word := range []string{"script", "unsafe", "*", "http"} {
				if strings.Contains(header.Get("Content-Security-Policy"), word) {
					t.Errorf("the policy has %q: %s", word, header.Get("Content-Security-Policy"))
				}
			}
			if header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("other sites may read")
			}
		}
		body := w.get("/", http.StatusOK)
		w.hides(body, "<script", "style=", "onclick", "http://", "https://")
	})
}

func TestNonsenseIsRefused(t *testing.T) {
	story(t, func(w *world) {
		w.shows(w.get("/?state=fialed", http.StatusBadRequest), `state "fialed"`, "failed")
		w.shows(w.get("/?sate=failed", http.StatusBadRequest), `parameter "sate"`)
		w.get("/?q=%3Cscript%3Ealert(1)%3C/script%3E", http.StatusOK)
		w.get("/?"+strings.Repeat("q", maxQuery+1), http.StatusRequestURITooLong)
		w.get("/report?format=xml", http.StatusBadRequest)
		w.get("/report?fromat=json", http.StatusBadRequest)
		w.get("/report?format=yaml&format=json", http.StatusBadRequest)
		w.get("/report?%zz", http.StatusBadRequest)
		// A refusal is text, whatever is in it.
		answer := w.request(http.MethodGet, "/?state=%3Cb%3E")
		if got := answer.Header().Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("a refusal is %s", got)
		}
	})
}

func TestHostMustBeTheAgentsUnlessTheSocketIsLocal(t *testing.T) {
	story(t, func(w *world) {
		w.config.Hosts = []string{"Agent.lan", "b.lan."}
		for host, want := range map[string]int{
			"localhost": 200, "LOCALHOST:8080": 200, "localhost.": 200, "x.localhost:1": 200, "": 200,
			"127.0.0.1": 200, "127.0.0.1:80": 200, "10.0.0.7:9": 200, "[::1]:80": 200, "[::1]": 200, "[fe80::1%25eth0]:1": 200,
			"agent.lan": 200, "AGENT.lan.:443": 200, "b.lan": 200,
			"evil.example": 421, "evil.example:80": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421,
			"notlocalhost": 421, "sub.agent.lan": 421, "a:b:c:d": 421,
		} {
			answer := w.request(http.MethodGet, "/healthz", func(r *http.Request) { r.Host = host })
			if answer.Code != want {
				t.Errorf("%q: %d, want %d", host, answer.Code, want)
			}
		}
		// What a program calls a unix socket is its own affair.
		answer := w.request(http.MethodGet, "/healthz", func(r *http.Request) {
			r.Host = "agent-of-machine-0"
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix", Name: "/x"}))
		})
		if answer.Code != http.StatusOK {
			t.Errorf("over a unix socket: %d", answer.Code)
		}
	})
}

func TestMetricsThatPanicAreServerErrors(t *testing.T) {
	story(t, func(w *world) {
		w.config.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })
		w.get("/metrics", http.StatusInternalServerError)
		if len(w.log.Lines("panic", "metrics", "boom")) != 1 {
			t.Errorf("logged\n%s", w.log.Text())
		}
		w.page.config.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		defer func() {
			if r := recover(); r != http.ErrAbortHandler {
				t.Errorf("an answer that is to be cut off: %v", r)
			}
		}()
		w.request(http.MethodGet, "/metrics")
	})
}

func TestPageTellsStateWhySinceAndNext(t *testing.T) {
	story(t, func(w *world) {
		w.config.Title = "agent <7>"
		w.faults.Add(fakes.Rule{Method: "EnsureOperator", Key: "mysql", Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("quota <b>of</b> 40 & more")}})
		for _, app := range []string{"grafana", "mysql", "redis"} {
			w.controller.AddApplication(app, fakes.App{})
		}
		w.operators(fakes.ModelUUID)
		w.after(90 * time.Second) // 1+2+4+8+16+32 s: 6 retries
		body := w.get("/", http.StatusOK)
		w.shows(body,
			"<title>1 of 3 not settled – agent &lt;7&gt;</title>",
			"<h1>agent &lt;7&gt;</h1>",
			`<a class="bad" href="?state=failed"><b>1</b> failed</a>`,
			`<a class="good" href="?state=settled"><b>2</b> settled</a>`,
			"1 to 3 of 3 in all",
			`quota &lt;b&gt;of&lt;/b&gt; 40 &amp; more`,
			`<td role="cell" data-label="Attempts" class="number">7</td>`,
			"1 min ago</time>", "in 37 s</time>",
			`<h2 id="list">Applications</h2>`,
			"operator provisioner of model "+fakes.ModelUUID,
		)
		w.hides(body, "<b>of</b>", "http-equiv", "Not ready", "Container types")
		if mysql, grafana := strings.Index(body, ">mysql"), strings.Index(body, ">grafana"); mysql > grafana {
			t.Error("the worst is not first")
		}

		failed := w.get("/?state=failed", http.StatusOK)
		w.shows(failed, ">mysql<", "1 to 1 of 1 failed", `aria-current="true"><b>1</b> failed`, `<a href="?">Show all</a>`)
		w.hides(failed, ">grafana<", ">redis<")
		w.shows(w.get("/?q=QUOTA", http.StatusOK), ">mysql<", `1 to 1 of 1 with &#34;QUOTA&#34;`, `value="QUOTA"`)
		w.shows(w.get("/?q=%22%3E%3Cb%3E", http.StatusOK), `value="&#34;&gt;&lt;b&gt;"`, "3 are left out")
		w.shows(w.get("/?refresh=10", http.StatusOK), `<meta http-equiv="refresh" content="10">`,
			`name="refresh" value="10"`, `href="?refresh=10&amp;state=failed"`)
		w.shows(w.get("/?sort=name", http.StatusOK), `aria-sort="ascending"`)
		w.shows(w.get("/?per=1&page=2", http.StatusOK), "2 to 2 of 3", "page 2 of 3", `href="?per=1" rel="prev"`, `href="?page=3&amp;per=1" rel="next"`)
		w.shows(w.get("/?per=1&page=99", http.StatusOK), "page 3 of 3")
	})
}

func TestPageWithoutWorkersSaysSo(t *testing.T) {
	story(t, func(w *world) {
		w.shows(w.get("/", http.StatusOK), "nothing to show yet", "None is known yet.", "None has started.")
		w.look().Operators()
		w.shows(w.get("/", http.StatusOK), "no operator provisioner has started")
	})
}

func TestDryRunTellsWhatItWouldDo(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.operators(fakes.ModelUUID, func(c *provisioner.Config) { c.DryRun = true })
		w.after(time.Second)
		w.shows(w.get("/", http.StatusOK), "would: ")
	})
}

func TestModelsAreToldApart(t *testing.T) {
	story(t, func(w *world) {
		w.controller.AddApplication("mysql", fakes.App{})
		w.operators(fakes.ModelUUID)
		w.after(time.Second)
		w.hides(w.get("/", http.StatusOK), "<small>"+fakes.ModelUUID)
		other := newWorld(w, w.clock)
		other.page = w.look()
		other.controller.AddApplication("mysql", fakes.App{})
		other.operators(otherModel)
		defer other.stop()
		w.after(time.Second)
		w.shows(w.get("/", http.StatusOK), "1 to 2 of 2", "<small>"+fakes.ModelUUID, "<small>"+otherModel)
	})
}

func TestContainersAndTypesAreShown(t *testing.T) {
	story(t, func(w *world) {
		w.faults.Add(fakes.Rule{Method: "Initialise", Key: string(kvm), Times: fakes.Always, Effect: fakes.Effect{Err: errors.New("dpkg <was> interrupted")}})
		w.faults.Add(fakes.Rule{Method: "StartInstance", Key: "0/lxd/1", Times: fakes.Always, Effect: fakes.Effect{Err: boom}})
		for _, id := range []string{"0/lxd/0", "0/lxd/1", "0/kvm/0"} {
			w.machine.AddContainer(id, fakes.Container{})
		}
		free := w.host.Lock().Occupy(container.Holder{Worker: "somebody", Reason: "else"}, 1)
		w.setup()
		w.after(time.Minute)
		body := w.get("/", http.StatusOK)
		w.shows(body, "Container types", ">kvm</th>", `data-label="For the lock">1 min</td>`, ">initialise</span>")
		free()
		w.after(10 * time.Second)
		body = w.get("/", http.StatusOK)
		w.shows(body, "dpkg &lt;was&gt; interrupted", ">ready</span>", ">0/lxd/1</th>", "(6 left)", "boom",
			"1 of 2 not settled", `<h2 id="list">Containers</h2>`, "lxd provisioner of machine 0", "waits for more types")
		w.shows(w.get("/?kind=application", http.StatusOK), "Nothing found for applications; 2 are left out.")
	})
}

func TestPageOfATenThousandApplications(t *testing.T) {
	story(t, func(w *world) {
		ten := thousandsOf(w, 10_000)
		body := w.get("/", http.StatusOK)
		w.shows(body, "all settled (10,000)", "1 to 100 of 10,000", "page 1 of 100")
		if n := strings.Count(body, `<th scope="row"`); n != 101 { // and the worker
			t.Errorf("%d rows, want 100", n-1)
		}
		if len(body) > 100<<10 {
			t.Errorf("the page has %d bytes", len(body))
		}
		w.shows(w.get("/?sort=name&page=100&per=100", http.StatusOK), ">"+ten[9_999]+"<", "9,901 to 10,000 of 10,000")
		w.shows(w.get("/?q="+ten[5_000], http.StatusOK), "1 to 1 of 1 with")
		if n := strings.Count(w.get("/?per=1000", http.StatusOK), `<th scope="row"`); n != 1001 {
			t.Errorf("%d rows, want 1,000", n-1)
		}
		w.get("/?per=1001", http.StatusBadRequest)
	})
}

// thousandsOf starts a worker that knows so many applications, and returns their
// names in order. They have nothing to do, so this is quick.
func thousandsOf(w *world, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app%05dx", i))
		w.controller.AddApplication(names[i], fakes.App{Life: facade.Dying})
	}
	worker := w.operators(fakes.ModelUUID, func(c *provisioner.Config) { c.Logger = nil })
	if _, ok := w.clock.(*hands); ok {
		w.eventually("settled", func() bool { return worker.Status().Applications[provisioner.StateSettled] == n })
	} else {
		w.after(time.Second)
	}
	w.faults.Reset()
	slices.Sort(names)
	return names
}

// What a look costs the agent. 10,000 applications: 13 ms and 15 MB, most of it
// for the list of them, when this was written.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := newWorld(b, newHands(time.Now()))
			defer w.stop()
			thousandsOf(w, n)
			for _, query := range []string{"/", "/?sort=name&q=9", "/?state=failed"} {
				b.Run(query, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, query, nil)
						r.Host = "localhost"
						w.look().ServeHTTP(httptest.NewRecorder(), r)
					}
				})
			}
		})
	}
}
