package controller

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
)

// client is an operator that has no manners.
type client struct {
	http http.Client
	w    *world
}

func newClient(w *world) *client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(w.state.CACert()))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: api.ServerName}}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &client{http: http.Client{Transport: transport, Timeout: deadline}, w: w}
}

// post sends a body and returns the answer's code and body.
func (c *client) post(path, token, body string) (int, string) {
	c.w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, "https://"+c.w.Address()+path, strings.NewReader(body))
	if err != nil {
		c.w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		c.w.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// login returns the session's token.
func (c *client) login(app, password string) string {
	c.w.t.Helper()
	code, body := c.post(api.LoginPath, "", fmt.Sprintf(`{"tag": "application-%s", "password": %q}`, app, password))
	var session api.Session
	if err := json.Unmarshal([]byte(body), &session); code != 200 || err != nil || len(session.Token) < 20 {
		c.w.t.Fatalf("got %d %q, %v", code, body, err)
	}
	return session.Token
}

const active = `{"status": "active", "address": "127.0.0.1:1", "names": ["db"], "fingerprint": "ab"}`

func TestOperatorLogsInAndTellsItsStatus(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	w.setPassword("db", "hunter2-canary")
	c := newClient(w)
	token := c.login("db", "hunter2-canary")
	if got := w.report("applications", "db", "operator", "status"); got != "logged in" {
		t.Errorf("got status %v", got)
	}
	if code, body := c.post(api.StatusPath, token, active); code != 204 {
		t.Fatalf("got %d %q", code, body)
	}
	for key, want := range map[string]any{
		"status": "active", "logins": 1, "refused": 0, "address": "127.0.0.1:1", "certificate": "ab",
	} {
		if got := w.report("applications", "db", "operator", key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	w.clock.advance(lostAfter + time.Second)
	if got := w.report("applications", "db", "operator", "status"); got != "lost" {
		t.Errorf("after a long silence: got %v", got)
	}
	if code, _ := c.post(api.StatusPath, token, `{"status": "stopped"}`); code != 204 {
		t.Errorf("got %d", code)
	}
	w.clock.advance(time.Hour)
	if got := w.report("applications", "db", "operator", "status"); got != "stopped" {
		t.Errorf("got %v", got)
	}
	for what, text := range map[string]string{"log": w.log.String(), "report": fmt.Sprint(w.Report())} {
		if strings.Contains(text, "canary") || strings.Contains(text, token) {
			t.Errorf("a secret is in the %s:\n%s", what, text)
		}
	}
}

func TestLogInIsRefused(t *testing.T) {
	files := v1App("db", "")
	files["applications/dead/application.yaml"] = "life: dead\n"
	w := newWorld(t, files)
	w.setPassword("db", "right")
	w.setPassword("dead", "right")
	c := newClient(w)
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"wrong password":        {`{"tag": "application-db", "password": "wrong"}`, 401},
		"no password":           {`{"tag": "application-db"}`, 401},
		"no such application":   {`{"tag": "application-none", "password": "right"}`, 401},
		"a dead application":    {`{"tag": "application-dead", "password": "right"}`, 401},
		"another kind of tag":   {`{"tag": "machine-0", "password": "right"}`, 400},
		"not a name":            {`{"tag": "application-../db", "password": "right"}`, 400},
		"not JSON":              {`tag`, 400},
		"unknown field":         {`{"tag": "application-db", "password": "right", "admin": true}`, 400},
		"more than one value":   {`{"tag": "application-db", "password": "right"} {}`, 400},
		"more than it may send": {`{"tag": "application-db", "password": "` + strings.Repeat("x", api.MaxBody) + `"}`, 413},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := c.post(api.LoginPath, "", test.body)
			if code != test.want {
				t.Errorf("got %d %q, want %d", code, body, test.want)
			}
		})
	}
	if got := w.report("applications", "db", "operator", "refused"); got != 2 {
		t.Errorf("got %v refused, want 2", got)
	}
	if got := w.report("applications", "db", "operator", "logins"); got != 0 {
		t.Errorf("got %v logins", got)
	}
}

func TestSessionEnds(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	w.setPassword("db", "pw")
	c := newClient(w)
	refused := func(what, token string) {
		t.Helper()
		if code, _ := c.post(api.StatusPath, token, active); code != 401 {
			t.Errorf("%s: got %d, want 401", what, code)
		}
	}
	refused("none", "")
	refused("an invented one", strings.Repeat("A", 26))
	first := c.login("db", "pw")
	second := c.login("db", "pw")
	refused("an older one", first)
	if code, _ := c.post(api.StatusPath, second, active); code != 204 {
		t.Errorf("the newest: got %d", code)
	}
	w.rename("applications/db", "db")
	w.eventually("gone", func() bool { return w.report("applications", "db") == nil })
	refused("of an application that is gone", second)
	w.rename("db", "applications/db")
	w.eventually("back", func() bool { return w.report("applications", "db") != nil })
	// The password was kept meanwhile: its operator may still be there.
	c.login("db", "pw")
}

func TestStatusIsBounded(t *testing.T) {
	w := newWorld(t, v1App("db", ""))
	w.setPassword("db", "pw")
	c := newClient(w)
	token := c.login("db", "pw")
	for name, body := range map[string]string{
		"unknown status":    `{"status": "fine"}`,
		"no status":         `{}`,
		"address":           `{"status": "active", "address": "here"}`,
		"control character": `{"status": "active", "names": ["a\u001b[2J"]}`,
		"many names":        `{"status": "active", "names": ["1","2","3","4","5","6","7","8","9"]}`,
		"a long name":       `{"status": "active", "names": ["` + strings.Repeat("x", 257) + `"]}`,
		"long fingerprint":  `{"status": "active", "fingerprint": "` + strings.Repeat("x", 65) + `"}`,
	} {
		if code, answer := c.post(api.StatusPath, token, body); code != 400 {
			t.Errorf("%s: got %d %q, want 400", name, code, answer)
		}
	}
}

func TestOtherRequestsFindNothing(t *testing.T) {
	w := newWorld(t, nil)
	c := newClient(w)
	if code, _ := c.post("/", "", ""); code != 404 {
		t.Errorf("got %d, want 404", code)
	}
	resp, err := c.http.Get("https://" + w.Address() + api.LoginPath)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("got %d, want 405", resp.StatusCode)
	}
}

func TestOperatorCannotPassForTheController(t *testing.T) {
	w := newWorld(t, v1App("controller", ""))
	issued, err := w.IssueOperatorCertificate(t.Context(), "controller")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(issued.Cert), []byte(issued.PrivateKey.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname(api.ServerName); err == nil {
		t.Error("an operator's certificate names the controller")
	}
	if err := pair.Leaf.VerifyHostname("controller"); err != nil {
		t.Error(err)
	}
}

func TestPlainHTTPIsNotServed(t *testing.T) {
	w := newWorld(t, nil)
	resp, err := http.Post("http://"+w.Address()+api.LoginPath, "", bytes.NewReader(nil))
	if err != nil {
		return // refused, one way or another
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d", resp.StatusCode)
	}
}
