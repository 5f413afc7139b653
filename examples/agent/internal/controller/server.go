package controller

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
	"github.com/sutler-dev/sutler/facade"
)

// defaultListen is for operators on this machine.
const defaultListen = "127.0.0.1:0"

// listen opens the endpoint at want, host:port. Port 0 is where it was the last
// time on that host, so that operators find it again, or else a free one. So it is
// when somebody else has the port by now: then the address that applications have
// by default is another, and their operators get it with their next configuration.
func (s *State) listen(ctx context.Context, want string, logger *slog.Logger) (net.Listener, error) {
	host, port, err := net.SplitHostPort(want)
	if err != nil {
		return nil, errors.NotValidf("listen address %q (want host:port)", want)
	}
	if lastHost, _, err := net.SplitHostPort(s.settings.Address); port == "0" && err == nil && lastHost == host {
		want = s.settings.Address
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", want)
	if errors.Is(err, syscall.EADDRINUSE) {
		logger.Warn("the controller's port is taken, using another", "address", want, "err", err)
		l, err = config.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, errors.Annotate(err, "opening the log-in endpoint")
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	address := net.JoinHostPort(host, port)
	if address == s.settings.Address {
		return l, nil
	}
	s.settings.Address = address
	if err := s.saveSettings(); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// newServer returns the endpoint that operators log in to.
func (c *Controller) newServer() (*http.Server, error) {
	issued, err := c.config.State.ca.issue(c.config.Clock.Now(), serverLife, []string{api.ServerName, "localhost"},
		net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair([]byte(issued.Cert), []byte(issued.PrivateKey.Reveal()))
	if err != nil {
		return nil, errors.Trace(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+api.LoginPath, c.handleLogin)
	mux.HandleFunc("POST "+api.StatusPath, c.handleStatus)
	return &http.Server{
		Handler:           http.MaxBytesHandler(mux, api.MaxBody),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(debugWriter{c.logger}, "", 0),
	}, nil
}

func (c *Controller) handleLogin(w http.ResponseWriter, req *http.Request) {
	var login api.Login
	if !decode(w, req, &login) {
		return
	}
	app, ok := strings.CutPrefix(login.Tag, "application-")
	if !ok || facade.ValidateApplicationName(app) != nil {
		http.Error(w, "want the tag of an application", http.StatusBadRequest)
		return
	}
	good, err := c.config.State.passwords.check(req.Context(), app, login.Password)
	if err != nil {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	// One answer for whatever is wrong: who cannot log in need not learn
	// which applications there are.
	known := c.expects(app)
	if !good || !known {
		if known {
			c.operators.refuse(app)
		}
		c.logger.Warn("log-in refused", "application", app)
		http.Error(w, "no such application and password", http.StatusUnauthorized)
		return
	}
	token := c.operators.login(app, c.config.Clock.Now())
	c.logger.Info("operator logged in", "application", app)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.Session{Token: token})
}

// expects tells whether the application has an operator that may log in: one
// that is there, malformed or not, and is not dead.
func (c *Controller) expects(app string) bool {
	a := c.current().Applications[app]
	return a != nil && a.Life != facade.Dead
}

func (c *Controller) handleStatus(w http.ResponseWriter, req *http.Request) {
	var status api.Status
	if !decode(w, req, &status) {
		return
	}
	if err := validateStatus(status); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	app, err := c.operators.setStatus(token, status, c.config.Clock.Now())
	if err != nil {
		http.Error(w, "no such session", http.StatusUnauthorized)
		return
	}
	c.logger.Debug("operator told its status", "application", app, "status", status.Status)
	w.WriteHeader(http.StatusNoContent)
}

// decode reads the request's one JSON value, or answers with what is wrong,
// without repeating any of it.
func decode(w http.ResponseWriter, req *http.Request, into any) bool {
	dec := json.NewDecoder(req.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	if err == nil && dec.Decode(&struct{}{}) == io.EOF {
		return true
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(w, "request too large", http.StatusRequestEntityTooLarge)
		return false
	}
	http.Error(w, "malformed request", http.StatusBadRequest)
	return false
}

// debugWriter is where net/http complains about its clients.
type debugWriter struct{ logger *slog.Logger }

func (d debugWriter) Write(p []byte) (int, error) {
	d.logger.Debug("endpoint", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
