package virt_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/virt"
)

func TestConfigNamesTheFieldThatIsNotValid(t *testing.T) {
	good := virt.Config{Socket: "/run/libvirt/libvirt-sock", Clock: clock.WallClock}
	ok(t, good.Validate())
	for field, config := range map[string]virt.Config{
		"Socket":           {Socket: "libvirt-sock", Clock: clock.WallClock},
		"Socket of":        {Socket: "/" + strings.Repeat("x", 107), Clock: clock.WallClock},
		"Clock":            {Socket: good.Socket},
		"CallTimeout":      {Socket: good.Socket, Clock: clock.WallClock, CallTimeout: -1},
		"OperationTimeout": {Socket: good.Socket, Clock: clock.WallClock, OperationTimeout: -1},
	} {
		err := config.Validate()
		if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
		if client, err := virt.New(config); client != nil || !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: New() = %v, %v", field, client, err)
		}
	}
}

// peer listens at a socket and has f talk on every connection.
func peer(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var (
		work  sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			work.Go(func() { f(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return socket
}

// silent reads and says nothing.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// packet is one of libvirt's, to a question that is read from conn first.
func packet(conn net.Conn, length uint32, status uint32, payload []byte) []byte {
	question := make([]byte, 28)
	if _, err := io.ReadFull(conn, question); err != nil {
		return nil
	}
	_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(question))-28)
	answer := append([]byte(nil), question...)
	if length == 0 {
		length = uint32(28 + len(payload))
	}
	binary.BigEndian.PutUint32(answer, length)
	binary.BigEndian.PutUint32(answer[16:], 1)
	binary.BigEndian.PutUint32(answer[24:], status)
	return append(answer, payload...)
}

func TestWithoutADaemonTheSocketIsNamed(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead")
	listener, err := net.Listen("unix", dead)
	ok(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = listener.Close()
	for _, socket := range []string{
		filepath.Join(dir, "absent"),
		dead,
		peer(t, func(conn net.Conn) { _ = conn.Close() }),
	} {
		client := newClient(t, virt.Config{Socket: socket})
		for range 2 {
			_, err := client.Version(t.Context())
			wantKind(t, err, "not yet available")
			if err != nil && !strings.Contains(err.Error(), socket) {
				t.Errorf("%v does not name %s", err, socket)
			}
		}
	}
}

func TestWhoeverDoesNotSpeakLibvirtIsRefused(t *testing.T) {
	long := make([]byte, 64)
	for i := range long {
		long[i] = 0xff
	}
	for about, f := range map[string]func(net.Conn) []byte{
		"too short":    func(conn net.Conn) []byte { return packet(conn, 4, 0, nil) },
		"without end":  func(conn net.Conn) []byte { return packet(conn, 1<<31, 0, nil) },
		"another":      func(net.Conn) []byte { return []byte(strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 4)) },
		"no list":      func(conn net.Conn) []byte { return packet(conn, 0, 0, nil) },
		"a wrong list": func(conn net.Conn) []byte { return packet(conn, 0, 0, long) },
		"an odd error": func(conn net.Conn) []byte { return packet(conn, 0, 1, long[:5]) },
	} {
		t.Run(about, func(t *testing.T) {
			socket := peer(t, func(conn net.Conn) {
				_, _ = conn.Write(f(conn))
				silent(conn)
			})
			client := newClient(t, virt.Config{Socket: socket, CallTimeout: 20 * time.Second})
			within(t, 15*time.Second, "a refusal", func() {
				if _, err := client.Version(t.Context()); err == nil {
					t.Error("no error")
				} else if kind := kind(err); kind == "timeout" {
					t.Errorf("waited for: %v", err)
				}
			})
		})
	}
}

func TestWhatSaysNothingIsLeftInTime(t *testing.T) {
	socket := peer(t, silent)
	client := newClient(t, virt.Config{Socket: socket, CallTimeout: 50 * time.Millisecond, OperationTimeout: 60 * time.Millisecond})

	_, err := client.Version(t.Context())
	wantKind(t, err, "timeout")
	if !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("error %q", err)
	}
	_, err = client.DefineDomain(t.Context(), machine("qemu", "m", ""))
	wantKind(t, err, "timeout")

	patient := newClient(t, virt.Config{Socket: socket})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = patient.Domains(ctx)
	wantKind(t, err, "timeout")
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	within(t, 10*time.Second, "a cancelled call", func() {
		_, err := patient.Pools(ctx)
		wantKind(t, err, "cancelled")
	})
	_, err = patient.Pools(ctx)
	wantKind(t, err, "cancelled")
}

// The call that connects ends; those that wait for its connection go on.
func TestACancelledConnectionHoldsUpNobody(t *testing.T) {
	socket := peer(t, silent)
	client := newClient(t, virt.Config{Socket: socket})
	var work sync.WaitGroup
	for range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		work.Go(func() {
			_, err := client.Version(ctx)
			wantKind(t, err, "cancelled")
		})
	}
	within(t, 20*time.Second, "all calls", work.Wait)
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	asked := make(chan struct{}, 1)
	socket := peer(t, func(conn net.Conn) {
		asked <- struct{}{}
		silent(conn)
	})
	client := newClient(t, virt.Config{Socket: socket})
	done := make(chan error, 1)
	go func() {
		_, err := client.Version(context.Background())
		done <- err
	}()
	<-asked
	within(t, 10*time.Second, "Close", client.Close)
	within(t, 10*time.Second, "the call", func() {
		if err := <-done; err == nil {
			t.Error("no error")
		}
	})
	_, err := client.Version(t.Context())
	if err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
	client.Close()
}

func TestWaitReadyEndsWithItsContext(t *testing.T) {
	client := newClient(t, virt.Config{Socket: filepath.Join(t.TempDir(), "absent")})
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	err := client.WaitReady(ctx)
	wantKind(t, err, "timeout")
	if !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the reason is not told: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	wantKind(t, client.WaitReady(ctx), "cancelled")
}

func TestNoGoroutineIsLeft(t *testing.T) {
	client := newClient(t, virt.Config{Socket: peer(t, silent), CallTimeout: 10 * time.Millisecond})
	for range 5 {
		_, err := client.Version(t.Context())
		wantKind(t, err, "timeout")
	}
	client.Close()
	stacks := make([]byte, 1<<20)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		text := string(stacks[:runtime.Stack(stacks, true)])
		if !strings.Contains(text, "digitalocean/go-libvirt") {
			return
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
	}
}
