package kubernetes

import (
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// stall keeps back what watches tell, as a slow network does, so that caches are
// behind for as long as a test wants, and cuts their connections. The zero value does
// neither.
type stall struct {
	mu     sync.Mutex
	gate   chan struct{} // closed when open; nil is open
	bodies map[*stalledBody]bool
}

// wrap returns a copy of the configuration, for clients whose watches are kept back.
func (s *stall) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return stalling{s, next} })
	return config
}

// hold keeps back all that has not been told yet.
func (s *stall) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

// release lets it through, in its order.
func (s *stall) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// cut ends all connections of watches as if the network had, and returns how many.
func (s *stall) cut() int {
	s.mu.Lock()
	bodies := s.bodies
	s.bodies = nil
	s.mu.Unlock()
	for b := range bodies {
		b.end()
	}
	return len(bodies)
}

func (s *stall) add(b *stalledBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bodies == nil {
		s.bodies = make(map[*stalledBody]bool)
	}
	s.bodies[b] = true
}

func (s *stall) remove(b *stalledBody) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.bodies, b)
}

func (s *stall) current() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate
}

type stalling struct {
	stall *stall
	next  http.RoundTripper
}

func (s stalling) RoundTrip(q *http.Request) (*http.Response, error) {
	response, err := s.next.RoundTrip(q)
	if err == nil && q.URL.Query().Get("watch") != "" {
		body := &stalledBody{stall: s.stall, body: response.Body, ended: q.Context().Done(), closed: make(chan struct{})}
		s.stall.add(body)
		response.Body = body
	}
	return response, err
}

type stalledBody struct {
	stall  *stall
	body   io.ReadCloser
	ended  <-chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Read waits after it has read: what was under way when the gate was closed is kept
// back, too.
func (b *stalledBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	for gate := b.stall.current(); gate != nil; gate = b.stall.current() {
		select {
		case <-gate:
		case <-b.ended:
			return 0, io.ErrUnexpectedEOF
		case <-b.closed:
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (b *stalledBody) end() {
	b.once.Do(func() { close(b.closed) })
	b.body.Close()
}

func (b *stalledBody) Close() error {
	b.stall.remove(b)
	b.end()
	return nil
}
