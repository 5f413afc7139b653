package outside

import (
	"context"
	stderrors "errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
	"github.com/sutler-dev/sutler/observe/page"
)

// SocketName is the socket's, in the agent's directory.
const SocketName = "introspection.sock"

// patience is how long somebody who looks may take to ask, and to read.
const patience = 30 * time.Second

// ValidateAddress wants a loopback address and a port, as in 127.0.0.1:8080 or
// localhost:0, and else returns an errors.NotValid.
func ValidateAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err == nil && host == "localhost" {
		return nil
	}
	if ip, ipErr := netip.ParseAddr(host); err != nil || ipErr != nil || !ip.IsLoopback() {
		return errors.NewNotValid(nil, "want a loopback address and a port, as in 127.0.0.1:8080: what is seen has no password")
	}
	return nil
}

// Server serves an [Outside] over HTTP. It is a worker.
type Server struct {
	catacomb  catacomb.Catacomb
	server    *http.Server
	listeners []net.Listener
}

// Serve makes the socket in dir, listens on the address, too, unless that is
// empty, and shows reporter's report among the others. The caller owns the worker.
func (o *Outside) Serve(ctx context.Context, dir, address string, reporter page.Reporter) (*Server, error) {
	o.reporter.Store(&reporter)
	s := &Server{server: &http.Server{
		Handler:           o.page,
		ReadHeaderTimeout: patience,
		WriteTimeout:      patience,
		IdleTimeout:       patience,
	}}
	if err := s.listen(ctx, dir, address); err != nil {
		s.close()
		return nil, err
	}
	if err := catacomb.Invoke(catacomb.Plan{Site: &s.catacomb, Work: s.loop}); err != nil {
		s.close()
		return nil, errors.Trace(err)
	}
	return s, nil
}

func (s *Server) listen(ctx context.Context, dir, address string) error {
	local, err := socket.Listen(ctx, dir, SocketName)
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, local)
	if address == "" {
		return nil
	}
	if err := ValidateAddress(address); err != nil {
		return err
	}
	var config net.ListenConfig
	loopback, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Annotate(err, "serving the page")
	}
	s.listeners = append(s.listeners, loopback)
	// Whatever localhost is on this machine.
	return ValidateAddress(loopback.Addr().String())
}

func (s *Server) close() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// URLs are where a browser finds the page: none when there is only the socket.
func (s *Server) URLs() []string {
	var urls []string
	for _, l := range s.listeners {
		if l.Addr().Network() == "tcp" {
			urls = append(urls, "http://"+l.Addr().String()+"/")
		}
	}
	return urls
}

// Kill is part of worker.Worker.
func (s *Server) Kill() { s.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (s *Server) Wait() error { return s.catacomb.Wait() }

func (s *Server) loop() error {
	ended := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { ended <- s.server.Serve(l) }()
	}
	var err error
	open := len(s.listeners)
	select {
	case <-s.catacomb.Dying():
		err = s.catacomb.ErrDying()
	case err = <-ended:
		open--
	}
	// Whoever reads just now is cut off: the agent must not wait for a browser.
	_ = s.server.Close()
	for range open {
		<-ended
	}
	if stderrors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
