package operatorcmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/examples/agent/internal/api"
	"github.com/sutler-dev/sutler/facade"
)

// callTimeout is how long one request may take.
const callTimeout = 15 * time.Second

// client talks to a controller that it knows by its CA.
type client struct {
	http http.Client
}

func newClient(caCert string) (*client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(caCert)) {
		return nil, errors.NotValidf("CA certificate (want PEM)")
	}
	return &client{http.Client{
		Timeout: callTimeout,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: api.ServerName, MinVersion: tls.VersionTLS13},
			ForceAttemptHTTP2: true,
			IdleConnTimeout:   time.Minute,
		},
		// Nobody redirects a log-in.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// session is an open one, at the address where it was opened.
type session struct {
	addr  string
	token facade.Secret
}

// login opens a session. It returns errors.Unauthorized when the password is
// not the one.
func (c *client) login(ctx context.Context, addr, tag string, password facade.Secret) (session, error) {
	var answer api.Session
	err := c.post(ctx, addr, api.LoginPath, facade.Secret{}, api.Login{Tag: tag, Password: password.Reveal()}, &answer)
	if err != nil {
		return session{}, errors.Annotate(err, "logging in")
	}
	if answer.Token == "" {
		return session{}, errors.NotValidf("answer to a log-in: empty token")
	}
	return session{addr: addr, token: facade.NewSecret(answer.Token)}, nil
}

// tell tells a status. It returns errors.Unauthorized when the session is no
// longer known.
func (c *client) tell(ctx context.Context, s session, status api.Status) error {
	return errors.Annotate(c.post(ctx, s.addr, api.StatusPath, s.token, status, nil), "telling the status")
}

// post sends one request; answer may be nil.
func (c *client) post(ctx context.Context, addr, path string, token facade.Secret, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return errors.Trace(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+path, bytes.NewReader(data))
	if err != nil {
		return errors.Trace(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if !token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		// Read to the end, or the connection cannot be used again.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, api.MaxBody))
		_ = resp.Body.Close()
	}()
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return errors.Unauthorizedf("controller says")
	case resp.StatusCode/100 != 2:
		return errors.Errorf("controller answered %s", http.StatusText(resp.StatusCode))
	case answer == nil:
		return nil
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, api.MaxBody)).Decode(answer)
	return errors.Annotate(err, "reading the answer")
}
