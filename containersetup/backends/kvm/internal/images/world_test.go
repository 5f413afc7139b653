package images_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
	"github.com/sutler-dev/sutler/containersetup/backends/host/hosttest"
	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

// rawImage returns a raw image of that size that no other one is like.
func rawImage(seed uint64, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(data)
	copy(data[510:], "\x55\xaa")
	return data
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// world is a store, the server that images come from, and what was said.
type world struct {
	t      *testing.T
	dir    string
	store  *images.Store
	config images.Config
	host   *hosttest.Host
	server *server
	log    *bytes.Buffer
}

// newWorld has a host with a qemu-img that believes what it is told, and no network: the
// server is called by the client, so that time can be virtual.
func newWorld(t *testing.T, change ...func(*images.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "pool"), host: &hosttest.Host{}, log: &bytes.Buffer{}}
	w.server = &server{t: t}
	w.host.On(qemuInfo, "qemu-img", "info")
	w.host.On(qemuCreate, "qemu-img", "create")
	w.config = images.Config{
		Dir: w.dir, Host: w.host, HTTP: &http.Client{Transport: w.server},
		FreeSpace: func(string) (uint64, error) { return 1 << 40, nil },
		Logger:    slog.New(slog.NewTextHandler(w.log, nil)),
	}
	for _, c := range change {
		c(&w.config)
	}
	w.store = w.another()
	return w
}

// another returns one more store of the same folder.
func (w *world) another() *images.Store {
	w.t.Helper()
	store, err := images.New(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

// serve has the server serve an image, and returns it as a source.
func (w *world) serve(data []byte, answers ...answer) images.Source {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.data, w.server.answers = data, answers
	return images.Source{URL: "http://images.example/small.img", SHA256: sumOf(data), Size: uint64(len(data))}
}

// expectFetched fetches an image, and judges it.
func (w *world) expectFetched(source images.Source, data []byte) {
	w.t.Helper()
	image, err := w.store.Fetch(w.t.Context(), source)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.log)
	}
	got, err := os.ReadFile(image.Path)
	if err != nil || !bytes.Equal(got, data) {
		w.t.Fatalf("fetched %d bytes, want %d: %v", len(got), len(data), err)
	}
	w.expectFiles(".lock", "base-"+sumOf(data)+".img")
}

// expectFiles judges what is in the folder.
func (w *world) expectFiles(want ...string) {
	w.t.Helper()
	if got := w.files(); !slices.Equal(got, want) {
		w.t.Errorf("files:\ngot  %q\nwant %q", got, want)
	}
}

func (w *world) files() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.dir)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// part is where an unfinished download is.
func (w *world) part(data []byte) string { return filepath.Join(w.dir, ".base-"+sumOf(data)+".part") }

// write puts a file there.
func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// qemuInfo tells of an image what its first bytes say.
func qemuInfo(_ context.Context, cmd host.Command) (host.Output, error) {
	format := cmd.Args[slices.Index(cmd.Args, "-f")+1]
	data, err := os.ReadFile(cmd.Args[len(cmd.Args)-1])
	if err != nil {
		return host.Output{}, &host.ExitError{Program: "qemu-img", Code: 1, Message: err.Error()}
	}
	size := uint64(len(data))
	if format == "qcow2" && len(data) >= 32 {
		size = binary.BigEndian.Uint64(data[24:])
	}
	return host.Output{Stdout: fmt.Appendf(nil, `{"virtual-size": %d, "format": %q, "format-specific": {"type": %q, "data": {}}}`, size, format, format)}, nil
}

// qemuCreate makes a file that says how it was made.
func qemuCreate(_ context.Context, cmd host.Command) (host.Output, error) {
	path := cmd.Args[len(cmd.Args)-2]
	return host.Output{}, os.WriteFile(path, []byte(cmd.String()), 0o644)
}

// server serves one image, with a fault for each of the first requests. It is the
// transport of a client.
type server struct {
	t  *testing.T
	mu sync.Mutex

	data     []byte
	answers  []answer
	requests []*http.Request
}

// answer is how one request goes; what is nil is as it should be.
type answer struct {
	// err has there be no answer at all.
	err error
	// handler answers in the place of the server that serves files.
	handler http.HandlerFunc
	// tag is sent; "\"one\"" by default. "-" is for none.
	tag string
	// noRanges has the server know no ranges, noLength not tell lengths.
	noRanges, noLength bool
	// cut ends the body after so many bytes with an error; stall has nothing come then.
	cut   int
	stall bool
	// endless has zeros come, of no length that is told.
	endless bool
}

// RoundTrip is part of http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, r)
	var a answer
	if len(s.answers) > 0 {
		a = s.answers[min(n, len(s.answers)-1)]
	}
	data := s.data
	s.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	if a.handler == nil {
		a.handler = func(w http.ResponseWriter, r *http.Request) {
			switch a.tag {
			case "":
				w.Header().Set("ETag", `"one"`)
			case "-":
			default:
				w.Header().Set("ETag", a.tag)
			}
			r = r.Clone(r.Context())
			if a.noRanges {
				r.Header.Del("Range")
			}
			http.ServeContent(w, r, "", testTime(), bytes.NewReader(data))
		}
	}
	recorder := httptest.NewRecorder()
	a.handler(recorder, r)
	resp := recorder.Result()
	if a.noLength {
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	if a.endless {
		resp.Body, resp.ContentLength = io.NopCloser(zeros{}), -1
	}
	if a.cut > 0 || a.stall {
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, int64(a.cut)), broken{r.Context(), a.stall, a.noLength}))
	}
	return resp, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// broken is the end of a body that is cut short.
type broken struct {
	ctx          context.Context
	stall, clean bool
}

func (b broken) Read([]byte) (int, error) {
	switch {
	case b.stall:
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	case b.clean: // for who cannot know better
		return 0, io.EOF
	}
	return 0, io.ErrUnexpectedEOF
}

// ranges are those that were asked for, one for each request.
func (s *server) ranges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.requests {
		out = append(out, strings.TrimPrefix(r.Header.Get("Range"), "bytes="))
	}
	return out
}

func status(code int, headers ...string) answer {
	return answer{handler: func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; n < len(headers); n += 2 {
			w.Header().Set(headers[n], headers[n+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "<html>no image</html>")
	}}
}

// expectError judges an error's kind and words.
func expectError(t *testing.T, err error, kind error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if kind != nil && !errors.Is(err, kind) {
		t.Errorf("%v: not %v", err, kind)
	}
	if kind == nil {
		for _, other := range []error{errors.NotValid, errors.NotFound, errors.AlreadyExists, errors.NotSupported} {
			if errors.Is(err, other) {
				t.Errorf("%v: is %v", err, other)
			}
		}
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: says nothing of %q", err, word)
		}
	}
	if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "try again") {
		t.Errorf("%q", err)
	}
}
