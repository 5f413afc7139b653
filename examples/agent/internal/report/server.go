package report

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/juju/errors"
	"github.com/juju/worker/v3/catacomb"
	"gopkg.in/yaml.v3"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
)

// patience is how long a reader may take.
const patience = 10 * time.Second

// Server answers whoever connects with a report. It is a worker.
type Server struct {
	catacomb catacomb.Catacomb
	listener net.Listener
	report   func() map[string]any
}

// Serve makes the socket in dir and answers on it with what report returns,
// which is called by one goroutine. The caller owns the worker.
func Serve(ctx context.Context, dir string, report func() map[string]any) (*Server, error) {
	l, err := socket.Listen(ctx, dir, socketName)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, report: report}
	if err := catacomb.Invoke(catacomb.Plan{Site: &s.catacomb, Work: s.loop}); err != nil {
		_ = l.Close()
		return nil, errors.Trace(err)
	}
	return s, nil
}

// Kill is part of worker.Worker.
func (s *Server) Kill() { s.catacomb.Kill(nil) }

// Wait is part of worker.Worker.
func (s *Server) Wait() error { return s.catacomb.Wait() }

func (s *Server) loop() error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-s.catacomb.Dying()
		_ = s.listener.Close()
	}()
	defer func() { <-stopped }()
	for {
		// One at a time: who reads a report is a person, or a demo.
		conn, err := s.listener.Accept()
		select {
		case <-s.catacomb.Dying():
			if err == nil {
				_ = conn.Close()
			}
			return s.catacomb.ErrDying()
		default:
		}
		if err != nil {
			// Out of file descriptors, most likely; then a report is
			// wanted more than ever.
			select {
			case <-time.After(time.Second):
			case <-s.catacomb.Dying():
			}
			continue
		}
		s.answer(conn)
	}
}

func (s *Server) answer(conn net.Conn) {
	defer conn.Close()
	data, err := Marshal(s.report())
	if err != nil {
		return
	}
	// Somebody who does not read must not hold up the next.
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = conn.Write(data)
}

// Marshal renders a report. Whatever is not plain data is shown as it prints,
// so that a type that hides its content when printed does so here.
func Marshal(report map[string]any) ([]byte, error) {
	data, err := yaml.Marshal(plain(report))
	return data, errors.Annotate(err, "rendering the report")
}

// plain makes a value of maps, lists, texts, numbers and booleans.
func plain(v any) any {
	switch v := v.(type) {
	case nil, bool, string, int, int64, uint64, float64:
		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	case []string:
		return v
	case []map[string]any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = plain(e)
		}
		return out
	}
	return fmt.Sprint(v)
}
