package lxd_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sutler-dev/sutler/containersetup/backends/lxd"
	"github.com/sutler-dev/sutler/containersetup/backends/lxd/lxdtest"
	"github.com/sutler-dev/sutler/containersetup/backendtest"
	"github.com/sutler-dev/sutler/containersetup/container"
	"github.com/sutler-dev/sutler/facade"
)

const controllerUUID = "c0ffee00-0bad-400d-8000-4b1d0d06f00d"

// world is a daemon, and what a back end for it is made with.
type world struct {
	*testing.T
	daemon *lxdtest.Daemon
	config lxd.Config
	steps  *stepCounter
}

func newWorld(t *testing.T, daemon *lxdtest.Daemon) *world {
	t.Helper()
	steps := &stepCounter{}
	return &world{t, daemon, lxd.Config{
		ModelUUID:      lxdtest.Model(),
		ControllerUUID: controllerUUID,
		StateDir:       t.TempDir(),
		Host:           daemon.Host,
		Socket:         daemon.Socket,
		StopTimeout:    stopTimeout,
		Logger:         slog.New(steps),
	}, steps}
}

// stepCounter is a log that counts what was done to the host.
type stepCounter struct {
	n     atomic.Int64
	mu    sync.Mutex
	lines []string
}

func (s *stepCounter) Enabled(context.Context, slog.Level) bool { return true }
func (s *stepCounter) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *stepCounter) WithGroup(string) slog.Handler            { return s }
func (s *stepCounter) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		return true
	})
	s.mu.Lock()
	s.lines = append(s.lines, line)
	s.mu.Unlock()
	if r.Message == "preparing the host for LXD" && !strings.Contains(line, "step=wait") {
		s.n.Add(1)
	}
	return nil
}

func (s *stepCounter) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

func (w *world) backend() container.Backend {
	w.Helper()
	backend, err := lxd.NewBackend(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return backend
}

func (w *world) initialiser() *lxd.Initialiser {
	w.Helper()
	initialiser, err := lxd.NewInitialiser(w.config)
	if err != nil {
		w.Fatal(err)
	}
	return initialiser
}

// prepared prepares the host and returns a broker, whose instances are removed at the
// end.
func (w *world) prepared() *lxd.Broker {
	w.Helper()
	if err := w.initialiser().Initialise(w.Context()); err != nil {
		w.Fatal(err)
	}
	broker, err := lxd.NewBroker(w.Context(), w.config, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.removeAll(broker) })
	return broker
}

func (w *world) removeAll(broker *lxd.Broker) {
	ctx := context.Background()
	instances, err := broker.AllInstances(ctx)
	if err != nil {
		w.Errorf("listing instances at the end: %v", err)
	}
	for _, i := range instances {
		if errs := broker.StopInstances(ctx, i.ID); errs[0] != nil {
			w.Errorf("removing %s at the end: %v", i.ID, errs[0])
		}
	}
}

// params are what the tiny image makes an instance from.
func params(id string) container.StartParams {
	p := backendtest.Params(id)
	p.Info.Attributes = map[string]string{"image": lxdtest.Image, "lxd.boot.host_shutdown_timeout": "1"}
	p.Info.UserData = facade.NewSecret("#!/bin/sh\necho canary-of-the-user-data >/root/told\n")
	return p
}

func (w *world) started(broker *lxd.Broker, id string) container.StartResult {
	w.Helper()
	result, err := broker.StartInstance(w.Context(), params(id))
	if err != nil {
		w.Fatal(err)
	}
	return result
}

// proxy stands between a back end and the daemon.
type proxy struct {
	path   string
	daemon string

	mu sync.Mutex
	// before and after are called with each request's first line, before it is passed on
	// and once it was answered. What they return false for goes no further.
	before, after func(line string) bool
}

// hook sets what is called with each request.
func (p *proxy) hook(before, after func(line string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

// loseReply loses the answer to the next request that begins so.
func (p *proxy) loseReply(line string) {
	var once sync.Once
	p.hook(nil, func(got string) (passes bool) {
		passes = true
		if strings.HasPrefix(got, line) {
			once.Do(func() { passes = false })
		}
		return passes
	})
}

func newProxy(t *testing.T, daemon string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "proxy") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{path: filepath.Join(dir, "s"), daemon: daemon}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", p.path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) serve(conn net.Conn) {
	defer conn.Close()
	p.mu.Lock()
	before, after := p.before, p.after
	p.mu.Unlock()
	head := make([]byte, 64<<10)
	n, err := conn.Read(head)
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(head[:n]), "\r\n")
	if before != nil && !before(line) {
		return
	}
	daemon, err := (&net.Dialer{}).DialContext(context.Background(), "unix", p.daemon)
	if err != nil {
		return
	}
	defer daemon.Close()
	if _, err := daemon.Write(head[:n]); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(daemon, conn)
		_ = daemon.(*net.UnixConn).CloseWrite()
	}()
	if n, err = daemon.Read(head); err != nil { // it has done its work
		return
	}
	if after != nil && !after(line) {
		return
	}
	if _, err := conn.Write(head[:n]); err == nil {
		_, _ = io.Copy(conn, daemon)
	}
	_ = conn.Close()
	<-done
}

// instanceName is that of a container of the world's model.
func (w *world) instanceName(id string) string {
	w.Helper()
	name, err := container.InstanceName(w.config.ModelUUID, id)
	if err != nil {
		w.Fatal(err)
	}
	return name
}

// halfMake leaves what an agent leaves that is killed while it makes an instance.
func (w *world) halfMake(id string) error {
	out, err := w.lxc("init", lxdtest.Image, w.instanceName(id),
		"-c", "user.sutler.model="+w.config.ModelUUID, "-c", "user.sutler.controller="+controllerUUID, "-c", "user.sutler.container="+id)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
