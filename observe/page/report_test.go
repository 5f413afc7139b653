package page

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/facade"
	"github.com/sutler-dev/sutler/fakes"
)

// reporter is a Reporter that is a function.
type reporter func() map[string]any

func (r reporter) Report() map[string]any { return r() }

// report returns /report.
func (w *world) report() map[string]any {
	w.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(w.get("/report", http.StatusOK)), &out); err != nil {
		w.Fatal(err)
	}
	return out
}

func TestReportsOfAllWorkersAndTheAgent(t *testing.T) {
	story(t, func(w *world) {
		w.config.Reporter = reporter(func() map[string]any { return map[string]any{"state": "started"} })
		w.controller.AddApplication("mysql", fakes.App{})
		first := w.operators(fakes.ModelUUID)
		w.machine.AddContainer("0/lxd/0", fakes.Container{})
		w.setup()
		w.after(time.Minute)
		for _, target := range []string{"/report", "/report?format=json"} {
			out := map[string]any{}
			if err := yaml.Unmarshal([]byte(w.get(target, http.StatusOK)), &out); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%v", out)
			for _, want := range []string{
				"agent:map[state:started]",
				"operators:map[" + fakes.ModelUUID + ":map[",
				"containers:map[0:map[lxd:map[", "setup:map[",
				"settled:1",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %s in %s", target, want, got)
				}
			}
			if !json.Valid([]byte(w.get("/report?format=json", http.StatusOK))) {
				t.Error("this is no JSON")
			}
		}
		first.Kill()
		_ = first.Wait()
		ended := fmt.Sprint(w.report()["ended"])
		if !strings.Contains(ended, "operator provisioner of model "+fakes.ModelUUID) {
			t.Errorf("ended: %s", ended)
		}
	})
}

func TestReportIsInTheFormatThatIsAskedFor(t *testing.T) {
	const text, yamlType, jsonType = "text/plain; charset=utf-8", "application/yaml", "application/json"
	story(t, func(w *world) {
		for _, test := range []struct{ query, accept, want string }{
			{"", "", text},
			{"", "*/*", text},
			{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", text}, // a browser
			{"", "application/json", jsonType},
			{"", "application/json, text/plain, */*", text}, // both are as welcome
			{"", "application/json;q=0.5, application/yaml;q=0.9", yamlType},
			{"", "application/json;q=0.9, application/yaml;q=0.5", jsonType},
			{"", "application/json;q=0", text},
			{"", "application/json;q=x", text},
			{"", "application/yaml", yamlType},
			{"", ";;;,,,", text},
			{"?format=json", "application/yaml", jsonType},
			{"?format=yaml", "application/json", text},
			{"?format=", "application/json", jsonType},
		} {
			answer := w.request(http.MethodGet, "/report"+test.query, func(r *http.Request) {
				if test.accept != "" {
					r.Header.Set("Accept", test.accept)
				}
			})
			if got := answer.Header().Get("Content-Type"); answer.Code != http.StatusOK || got != test.want {
				t.Errorf("%s with Accept %q: %d %s, want %s", test.query, test.accept, answer.Code, got, test.want)
			}
		}
	})
}

func TestReporterThatPanicsHidesNoOther(t *testing.T) {
	story(t, func(w *world) {
		w.config.Reporter = reporter(func() map[string]any { panic("boom") })
		w.operators(fakes.ModelUUID)
		w.after(time.Second)
		report := w.report()
		if got := fmt.Sprint(report["agent"]); got != "map[error:panic: boom]" {
			t.Errorf("the agent's section is %s", got)
		}
		if report["operators"] == nil {
			t.Error("the worker's is not there")
		}
		if len(w.log.Lines("panic", "agent", "boom")) == 0 {
			t.Errorf("logged\n%s", w.log.Text())
		}
		// A value that panics when it prints is its reporter's panic, or is shown
		// as fmt shows such a thing.
		w.page.config.Reporter = reporter(func() map[string]any { return map[string]any{"x": bomb{}} })
		if got := fmt.Sprint(w.report()["agent"]); !strings.Contains(got, "boom") {
			t.Errorf("the agent's section is %s", got)
		}
	})
}

type bomb struct{}

func (bomb) String() string { panic("boom") }

func TestReporterThatHangsIsAnsweredForAndNotAskedAgain(t *testing.T) {
	story(t, func(w *world) {
		release := make(chan struct{})
		var calls atomic.Int32
		w.config.Reporter = reporter(func() map[string]any {
			calls.Add(1)
			<-release
			return map[string]any{"late": true}
		})
		w.operators(fakes.ModelUUID)
		w.after(time.Second)

		began := time.Now()
		report := w.report()
		if got := fmt.Sprint(report["agent"]); got != "map[error:no answer for 2 s]" || time.Since(began) != DefaultReportTimeout {
			t.Errorf("the agent's section is %s, after %v", got, time.Since(began))
		}
		if report["operators"] == nil {
			t.Error("the worker's is not there")
		}
		w.after(8 * time.Second)
		before := runtime.NumGoroutine()
		for range 20 {
			began = time.Now()
			if got := fmt.Sprint(w.report()["agent"]); got != "map[error:no answer for 10 s]" || time.Since(began) != 0 {
				t.Errorf("the agent's section is %s, after %v", got, time.Since(began))
			}
		}
		w.after(0) // who asked the workers, which answer, is through
		if after := runtime.NumGoroutine(); calls.Load() != 1 || after > before {
			t.Errorf("called %d times; goroutines went from %d to %d", calls.Load(), before, after)
		}
		w.shows(w.get("/", http.StatusOK), "nothing to show yet") // never waits for it
		close(release)
		w.after(0)
		if got := fmt.Sprint(w.report()["agent"]); got != "map[late:true]" || calls.Load() != 2 {
			t.Errorf("the agent's section is %s after %d calls", got, calls.Load())
		}
	})
}

type opaque struct{ Password string }

type level string

func TestReportIsMadePlain(t *testing.T) {
	story(t, func(w *world) {
		secret := facade.NewSecret("canary")
		self := map[string]any{"name": "self"}
		self["self"] = self
		n := 7
		w.config.Reporter = reporter(func() map[string]any {
			return map[string]any{
				"secret": secret, "secrets": []facade.Secret{secret}, "by-secret": map[facade.Secret]int{secret: 1},
				"struct": opaque{"canary"}, "pointer": &opaque{"canary"}, "number-pointer": &n,
				"bytes": []byte("canary"), "func": func() {}, "nil": nil, "nil-map": map[string]int(nil),
				"error": errors.New("why"), "errors": []error{errors.New("why not"), nil},
				"after": 3 * time.Second, "at": time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC),
				"int8": int8(-3), "uint": uint16(9), "nan": math.NaN(), "inf": math.Inf(1), "pi": float32(0.5),
				"level": level("high"), "ints": map[int]string{1: "one"}, "broken": "a\xffb\x00c",
				"self": self, "list": []any{1, map[string]any{"x": true}},
			}
		})
		for _, target := range []string{"/report", "/report?format=json"} {
			body := w.get(target, http.StatusOK)
			out := map[string]any{}
			if err := yaml.Unmarshal([]byte(body), &out); err != nil {
				t.Fatal(err)
			}
			agent, _ := out["agent"].(map[string]any)
			for key, want := range map[string]string{
				"secret": "[redacted]", "secrets": "[[redacted]]", "by-secret": "map[[redacted]:1]",
				"struct": "(page.opaque)", "pointer": "(*page.opaque)", "bytes": "6 bytes", "func": "(func())", "number-pointer": "(*int)",
				"error": "why", "errors": "[why not <nil>]", "after": "3s",
				"int8": "-3", "uint": "9", "nan": "NaN", "inf": "+Inf", "pi": "0.5", "nil": "<nil>", "nil-map": "map[]",
				"level": "high", "ints": "map[1:one]", "list": "[1 map[x:true]]", "broken": "a\uFFFDb\x00c",
			} {
				if got := fmt.Sprint(agent[key]); got != want {
					t.Errorf("%s: %s is %q, want %q", target, key, got, want)
				}
			}
			w.hides(body, "canary")
		}
	})
}
