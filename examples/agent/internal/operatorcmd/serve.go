package operatorcmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
	"github.com/sutler-dev/sutler/operator"
)

// server is where the operator can be spoken to.
type server struct {
	http     *http.Server
	listener net.Listener
	// status is what the controller is told of it.
	status api.Status
}

// newServer listens, to serve with the certificate of info.
func newServer(ctx context.Context, c Config, info operator.Info) (*server, error) {
	cert, err := tls.X509KeyPair([]byte(info.Cert), []byte(info.PrivateKey.Reveal()))
	if err != nil {
		return nil, errors.NotValidf("%s: certificate and key", infoFile) // the error might quote
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", cmp.Or(c.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, errors.Annotate(err, "opening the operator's port")
	}
	fingerprint := sha256.Sum256(cert.Leaf.Raw)
	s := &server{
		listener: listener,
		status: api.Status{
			Status:      api.Active,
			Address:     reachableBy(listener.Addr().String(), c.Host),
			Names:       cert.Leaf.DNSNames,
			Fingerprint: hex.EncodeToString(fingerprint[:]),
		},
	}
	s.http = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"application": c.Application, "status": api.Active})
		}),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		// A probe connects and says nothing, every few seconds.
		ErrorLog: slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// reachableBy is the address with another host, if there is one.
func reachableBy(addr, host string) string {
	_, port, err := net.SplitHostPort(addr)
	if host == "" || err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}

// serve returns when close was called or the listener broke.
func (s *server) serve() error { return s.http.ServeTLS(s.listener, "", "") }

func (s *server) close() { _ = s.http.Close() }
