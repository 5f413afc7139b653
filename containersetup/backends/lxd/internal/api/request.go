package api

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/internal/deadline"
)

const (
	// maxAnswer is the greatest answer that is read, in bytes, and maxList that
	// of a list: a thousand instances with 64 KiB of user data each.
	maxAnswer = 8 << 20
	maxList   = 64 << 20
)

// request is one to the daemon.
type request struct {
	method string
	// path is escaped already; see segment.
	path  string
	query url.Values
	// body is sent as JSON, unless it is nil.
	body any
	// etag has the request refused if the thing has changed.
	etag string
	// limit is the greatest answer in bytes; maxAnswer by default.
	limit int64
	// configs are those whose values no error may quote.
	configs []map[string]string
}

// answer is what LXD sends around everything.
type answer struct {
	Type      string          `json:"type"`
	Operation string          `json:"operation"`
	ErrorCode int             `json:"error_code"`
	Error     string          `json:"error"`
	Metadata  json.RawMessage `json:"metadata"`

	etag string
}

// ask sends a request and returns the answer, within a time. The context that
// the work is given ends with that time.
func (c *Client) ask(ctx context.Context, limit time.Duration, r request) (*answer, error) {
	var result *answer
	err := c.within(ctx, limit, func(ctx context.Context) error {
		var err error
		result, err = c.send(ctx, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// within calls f with a context that ends after limit.
func (c *Client) within(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	err := deadline.Call(ctx, c.config.Clock, limit, f)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errors.Timeout) {
		return errors.WithType(err, errors.Timeout)
	}
	return err
}

// get asks a plain question and decodes what the answer has.
func (c *Client) get(ctx context.Context, r request, into any) (etag string, err error) {
	r.method = http.MethodGet
	a, err := c.ask(ctx, c.config.CallTimeout, r)
	if err != nil {
		return "", err
	}
	if a.Type != "sync" {
		return "", errors.Errorf("%s: answer of type %q (want sync)", r.path, cut(a.Type, 20))
	}
	return a.etag, decode(r.path, a.Metadata, into)
}

// send sends a request and reads the answer, for as long as the context allows.
func (c *Client) send(ctx context.Context, r request) (*answer, error) {
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return nil, errors.Annotate(err, "encoding the request")
		}
		body = bytes.NewReader(data)
	}
	address := "http://lxd" + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, errors.Annotate(err, "making the request")
	}
	req.Header.Set("User-Agent", "sutler")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.etag != "" {
		// LXD compares with what is between the quotes.
		req.Header.Set("If-Match", r.etag)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()

	limit := r.limit
	if limit == 0 {
		limit = maxAnswer
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	if int64(len(data)) > limit {
		return nil, errors.Errorf("%s: answer of more than %d MiB", r.path, limit>>20)
	}
	return read(r, resp, data)
}

// unanswered returns the error of a request without an answer.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		why := op.Err
		if errors.Is(err, fs.ErrPermission) {
			return errors.WithType(errors.Errorf("socket %s: %v", c.config.Socket, why), errors.Forbidden)
		}
		return errors.WithType(errors.Errorf("LXD does not answer at socket %s: %v", c.config.Socket, why), errors.NotYetAvailable)
	}
	// What came instead of an answer is not quoted.
	return errors.WithType(errors.Errorf("socket %s: %s", c.config.Socket, ErrNoReply), ErrNoReply)
}

// read makes an answer of what was received.
func read(r request, resp *http.Response, data []byte) (*answer, error) {
	a := &answer{etag: resp.Header.Get("ETag")}
	// Neither the text of what is malformed nor the decoder's words about it go
	// into an error: there may be a secret in it.
	if err := json.Unmarshal(data, a); err != nil || a.Type == "" {
		if resp.StatusCode == http.StatusServiceUnavailable {
			return nil, &Error{Code: resp.StatusCode}
		}
		return nil, errors.Errorf("%s: not an answer of LXD's (HTTP status %d)", r.path, resp.StatusCode)
	}
	if a.Type == "error" || resp.StatusCode >= http.StatusBadRequest {
		code := resp.StatusCode
		if code < http.StatusBadRequest {
			code = a.ErrorCode
		}
		return nil, &Error{Code: code, Message: oneLine(redact(a.Error, r.configs))}
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, errors.Errorf("%s: HTTP status %d", r.path, resp.StatusCode)
	}
	return a, nil
}

// decode reads what an answer is about.
func decode(path string, data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return errors.Errorf("%s: answer does not have the form that it should have", path)
	}
	return nil
}

// change asks for a change and waits until it is made, at once or by an
// operation. It returns what the operation left.
func (c *Client) change(ctx context.Context, r request) (*operation, error) {
	return c.changeWithin(ctx, c.config.OperationTimeout, r)
}

func (c *Client) changeWithin(ctx context.Context, limit time.Duration, r request) (*operation, error) {
	var done *operation
	err := c.within(ctx, limit, func(ctx context.Context) error {
		a, err := c.send(ctx, r)
		if err != nil {
			return err
		}
		switch a.Type {
		case "sync":
			return nil
		case "async":
			done, err = c.wait(ctx, a.Operation, r.configs)
			return err
		}
		return errors.Errorf("%s: answer of type %q", r.path, cut(a.Type, 20))
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// segment returns a name as a part of a path. LXD has its own opinion on names;
// what is kept out here is what would make another path of it, or an address of
// a whole collection.
func segment(what, name string) (string, error) {
	bad := name == "" || len(name) > 512 || strings.ContainsFunc(name, unicode.IsControl)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "." || part == ".."
	}
	if bad {
		return "", errors.NotValidf("%s %s", what, strconv.Quote(cut(name, 64)))
	}
	return url.PathEscape(name), nil
}
