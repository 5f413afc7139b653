package remote

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3"
	"github.com/juju/worker/v3/catacomb"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
	"github.com/sutler-dev/sutler/facade"
)

const (
	// maxRequest is the greatest size of a question, in bytes.
	maxRequest = 16 << 20
	// patience is how long a question may take at the end.
	patience = 5 * time.Second
)

// server offers a controller on a socket.
type server struct {
	catacomb catacomb.Catacomb
	listener net.Listener
	http     http.Server
}

// Serve makes the socket in dir and answers there for the controller, which stays
// its caller's. So is the worker.
func Serve(ctx context.Context, dir string, c Source, id Identity) (worker.Worker, error) {
	l, err := socket.Listen(ctx, dir, socketName)
	if err != nil {
		return nil, err
	}
	s := &server{listener: l}
	s.http.Handler = http.MaxBytesHandler(s.handler(c, id), maxRequest)
	s.http.ReadHeaderTimeout = 5 * time.Second
	if err := catacomb.Invoke(catacomb.Plan{Site: &s.catacomb, Work: s.loop}); err != nil {
		_ = l.Close()
		return nil, errors.Trace(err)
	}
	return s, nil
}

// Kill is part of worker.Worker.
func (s *server) Kill() { s.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (s *server) Wait() error { return s.catacomb.Wait() }

func (s *server) loop() error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case <-s.catacomb.Dying():
		// Answers that go on have just ended, and others are awaited.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			_ = s.http.Close()
		}
		<-served
		return s.catacomb.ErrDying()
	case err := <-served:
		return errors.Annotate(err, "serving the facade")
	}
}

func (s *server) handler(c Source, id Identity) http.Handler {
	mux := http.NewServeMux()
	stream(mux, watchApplications, s.events(c.WatchApplications))
	stream(mux, watchProvisioning, s.events(c.WatchProvisioning))
	stream(mux, hello, func(req *http.Request, send func(any) error) error {
		if err := send(id); err != nil {
			return err
		}
		return s.ended(req)
	})
	question(mux, life, c.Life)
	question(mux, charm, c.CharmInfo)
	question(mux, provisioningInfo, func(ctx context.Context, app string) (wireInfo, error) {
		return infoToWire(c.OperatorProvisioningInfo(ctx, app))
	})
	question(mux, issueCertificate, func(ctx context.Context, app string) (wireCertificate, error) {
		return certificateToWire(c.IssueOperatorCertificate(ctx, app))
	})
	question(mux, setPasswords, setPasswordsOn(c))
	question(mux, applicationsInfo, applicationsInfoOf(c))
	question(mux, setStatus, func(ctx context.Context, s wireStatus) (struct{}, error) {
		return struct{}{}, c.SetProvisioningStatus(ctx, s.Name, s.Status, s.Message)
	})
	return mux
}

// ended waits until whoever asked is gone, or the server ends.
func (s *server) ended(req *http.Request) error {
	select {
	case <-req.Context().Done():
		return req.Context().Err()
	case <-s.catacomb.Dying():
		return facade.ErrConnectionLost
	}
}

// events makes a watcher for whoever asks, and has it end with the answer.
func (s *server) events(watch func(context.Context) (facade.StringsWatcher, error)) func(*http.Request, func(any) error) error {
	return func(req *http.Request, send func(any) error) error {
		w, err := watch(req.Context())
		if err != nil {
			return err
		}
		defer func() { _ = worker.Stop(w) }()
		dead := make(chan error, 1)
		go func() { dead <- w.Wait() }()
		for {
			select {
			case <-req.Context().Done():
				return req.Context().Err()
			case <-s.catacomb.Dying():
				return facade.ErrConnectionLost
			case err := <-dead:
				return err
			case names := <-w.Changes():
				if err := send(names); err != nil {
					return err
				}
			}
		}
	}
}

// question answers one that has one answer.
func question[In, Out any](mux *http.ServeMux, name string, answer func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, req *http.Request) {
		var in In
		if err := json.NewDecoder(req.Body).Decode(&in); err != nil {
			refuse(w, errors.NotValidf("question")) // the error might quote
			return
		}
		out, err := answer(req.Context(), in)
		if err != nil {
			refuse(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(out)
	})
}

// stream answers one of which the answer goes on. A failure after its beginning
// is its end.
func stream(mux *http.ServeMux, name string, answer func(req *http.Request, send func(any) error) error) {
	mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, req *http.Request) {
		begun := false
		err := answer(req, func(v any) error {
			begun = true
			if err := json.NewEncoder(w).Encode(v); err != nil {
				return err
			}
			return http.NewResponseController(w).Flush()
		})
		if err != nil && !begun {
			refuse(w, err)
		}
	})
}

func refuse(w http.ResponseWriter, err error) {
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(toWire(err))
}
