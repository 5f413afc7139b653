package api_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/api"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/internal/lxdfake"
)

// serve has a handler answer on a socket, whose path it returns.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lxd") //nolint:usetesting // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h} //nolint:gosec // no slow client here
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
		_ = os.RemoveAll(dir)
	})
	return socket
}

// always returns the socket of a daemon that answers everything in one way.
func always(t testing.TB, code int, body string) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	})
}

func TestAnswersThatAreNone(t *testing.T) {
	for about, x := range map[string]struct {
		code int
		body string
	}{
		"nothing":                {http.StatusOK, ""},
		"no JSON":                {http.StatusOK, "<html>" + secret},
		"JSON of another sort":   {http.StatusOK, `["` + secret + `"]`},
		"no type":                {http.StatusOK, `{"metadata":{"name":"x"}}`},
		"unknown type":           {http.StatusOK, `{"type":"` + secret + `"}`},
		"metadata of wrong type": {http.StatusOK, `{"type":"sync","metadata":"` + secret + `"}`},
		"no metadata":            {http.StatusOK, `{"type":"sync"}`},
		"number for a text":      {http.StatusOK, `{"type":"sync","metadata":{"name":42,"status":42,"target":42,"fingerprint":42,"config":42,"environment":42}}`},
		"cut short":              {http.StatusOK, `{"type":"sync","metadata":{"na`},
		"deep":                   {http.StatusOK, `{"type":"sync","metadata":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`},
		"redirect":               {http.StatusFound, `{"type":"sync","metadata":{}}`},
		"other server":           {http.StatusBadGateway, "<html>" + secret},
		"operation elsewhere":    {http.StatusAccepted, `{"type":"async","operation":"/1.0/operations/../instances/c"}`},
		"operation without id":   {http.StatusAccepted, `{"type":"async","operation":"/1.0/operations/"}`},
		"operation of another":   {http.StatusAccepted, `{"type":"async","operation":"http://elsewhere/` + secret + `"}`},
	} {
		t.Run(about, func(t *testing.T) {
			client := newClient(t, always(t, x.code, x.body))
			for _, c := range calls() {
				err := c.do(t.Context(), client)
				if c.change && !c.operation && x.code == http.StatusOK && strings.Contains(x.body, `"sync"`) && err == nil {
					continue // was not to have metadata
				}
				if c.operation && strings.Contains(x.body, `"sync"`) && err == nil {
					continue // a later LXD may do at once what takes an operation now
				}
				if err == nil {
					t.Errorf("%s: no error", c.name)
					continue
				}
				if got := kind(err); got != "error" {
					t.Errorf("%s: error is %q: %v", c.name, got, err)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s: an answer is quoted: %v", c.name, err)
				}
			}
		})
	}
}

// A daemon that is only starting has no better answer than its code.
func TestUnavailableNeedsNoMessage(t *testing.T) {
	client := newClient(t, always(t, http.StatusServiceUnavailable, "<html>"))
	for _, c := range calls() {
		wantKind(t, c.do(t.Context(), client), "not yet available")
	}
}

func TestAnswerThatIsTooLarge(t *testing.T) {
	for about, x := range map[string]struct {
		mebibytes int
		do        func(*api.Client) error
	}{
		"one":  {9, func(c *api.Client) error { _, err := c.Network(t.Context(), "n"); return err }},
		"list": {65, func(c *api.Client) error { _, err := c.Instances(t.Context()); return err }},
	} {
		t.Run(about, func(t *testing.T) {
			block := []byte(strings.Repeat(" ", 1<<20))
			client := newClient(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"type":"sync",`))
				for range x.mebibytes {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
				_, _ = w.Write([]byte(`"metadata":[]}`))
			}))
			if err := x.do(client); err == nil || !strings.Contains(err.Error(), "MiB") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestMessageIsOneShortLine(t *testing.T) {
	for about, message := range map[string]string{
		"lines":      "first\r\nsecond\n\tthird",
		"terminal":   "\x1b[2J\x07red\u202e",
		"long":       strings.Repeat("very ", 1<<18),
		"long word":  strings.Repeat("ü", 1<<18),
		"not UTF-8":  "a\xff\xfeb",
		"only noise": "\n\n",
		"nothing":    "",
	} {
		fake := lxdfake.New(t)
		fake.Fail("", "/1.0", http.StatusInternalServerError, message, 1)
		fake.FailOperation("", "/1.0/instances/*", message, 1)
		client := newClient(t, fake.Socket())
		fake.AddInstance(api.Instance{Name: "c"})
		_, err := client.Server(t.Context())
		for _, err := range []error{err, client.DeleteInstance(t.Context(), "c")} {
			if err == nil {
				if message == "" { // an operation without an error has not failed
					continue
				}
				t.Errorf("%s: no error", about)
				continue
			}
			checkLine(t, about, err)
		}
	}
}

func checkLine(t testing.TB, about string, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > 700 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\t\x00\x1b\x07\u202e") || strings.TrimSpace(text) != text {
		t.Errorf("%s: bad message of %d bytes: %q", about, len(text), text[:min(len(text), 700)])
	}
}

func TestNoValueOfAConfigurationInAnError(t *testing.T) {
	for about, text := range map[string]string{
		"plain":           "cannot set 'core.proxy_http' to '%s': bad",
		"twice":           "%[1]s: %[1]s",
		"within a word":   "http://user:%s@proxy",
		"after its start": "line 1: did not find %s",
	} {
		forEachCall(t, func(t *testing.T, fake *lxdfake.Fake, client *api.Client, c call) {
			switch c.name {
			case "PatchServerConfig", "CreateStoragePool", "CreateNetwork", "PutProfile", "CreateInstance", "PutInstance", "PatchInstance":
			default:
				return // sends none
			}
			message := fmt.Sprintf(text, secret)
			fake.Fail(c.method, c.path, http.StatusBadRequest, message, 1)
			fake.FailOperation(c.method, c.path, message, 1)
			for range 2 { // the operation's failure is the second
				if err := c.do(t.Context(), client); err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%s: %v", about, err)
				}
			}
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, `{"type":"sync","metadata":{"name":"x","config":{"a":"b"},"devices":{"eth0":{"type":"nic"}}}}`)
	f.Add(200, `{"type":"sync","metadata":[{"name":"x","used_by":null,"created_at":"2026-11-30T19:34:50Z"}]}`)
	f.Add(202, `{"type":"async","operation":"/1.0/operations/a-b","metadata":{}}`)
	f.Add(200, `{"type":"sync","metadata":{"status":"Failure","status_code":400,"err":"x\ny"}}`)
	f.Add(404, `{"type":"error","error_code":404,"error":"Instance not found"}`)
	f.Add(500, `<html>`)
	f.Add(200, `{"type":"error","error_code":-1,"error":"\u0000"}`)
	type answer struct {
		code int
		body string
	}
	var now answer
	client := newClient(f, serve(f, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/1.0/operations/") {
			// Or else the client waits.
			_, _ = w.Write([]byte(`{"type":"sync","metadata":{"status_code":400,"err":"x"}}`))
			return
		}
		w.WriteHeader(now.code)
		_, _ = w.Write([]byte(now.body))
	}))
	f.Fuzz(func(t *testing.T, code int, body string) {
		if code < 200 || code > 599 {
			return
		}
		now = answer{code, body}
		for _, c := range calls() {
			err := c.do(t.Context(), client)
			if err == nil {
				continue
			}
			checkLine(t, c.name, err)
		}
	})
}
