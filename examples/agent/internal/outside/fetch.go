package outside

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/socket"
)

// Fetch gets a path, as in /metrics, from the agent whose directory is dir. The
// error is an errors.NotFound when no agent runs there or it has no such path, and
// any other when the answer is not 200.
func Fetch(ctx context.Context, dir, path string) ([]byte, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return socket.Dial(ctx, dir, SocketName)
		},
		DisableKeepAlives: true,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, errors.Trace(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, errors.Annotatef(err, "asking for %s", path)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, errors.Annotatef(err, "reading %s", path)
	case response.StatusCode == http.StatusNotFound:
		return nil, errors.NotFoundf("path %s", path)
	case response.StatusCode != http.StatusOK:
		return body, errors.Errorf("asking for %s: status %d: %s", path, response.StatusCode, bytes.TrimSpace(body[:min(len(body), 200)]))
	}
	return body, nil
}
