package virt

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/juju/errors"
)

func TestKindsOfRefusals(t *testing.T) {
	for code, want := range map[libvirt.ErrorNumber]error{
		libvirt.ErrNoDomain:             errors.NotFound,
		libvirt.ErrNoNetwork:            errors.NotFound,
		libvirt.ErrNoStoragePool:        errors.NotFound,
		libvirt.ErrNoStorageVol:         errors.NotFound,
		libvirt.ErrDomExist:             errors.AlreadyExists,
		libvirt.ErrNetworkExist:         errors.AlreadyExists,
		libvirt.ErrStorageVolExist:      errors.AlreadyExists,
		libvirt.ErrNoSupport:            errors.NotSupported,
		libvirt.ErrConfigUnsupported:    errors.NotSupported,
		libvirt.ErrOperationUnsupported: errors.NotSupported,
		libvirt.ErrAccessDenied:         errors.Forbidden,
		libvirt.ErrAuthFailed:           errors.Forbidden,
		libvirt.ErrOperationTimeout:     errors.Timeout,
		libvirt.ErrInternalError:        nil,
		libvirt.ErrOperationFailed:      nil,
		libvirt.ErrOperationInvalid:     nil,
		libvirt.ErrXMLError:             nil,
	} {
		c := &Client{config: Config{Socket: "/s"}}
		broken, err := c.classify(libvirt.Error{Code: uint32(code), Message: "first\nsecond  \x1b[31m third"})
		if broken {
			t.Errorf("code %d: the connection is given up", code)
		}
		if err.Error() != "libvirt: first second [31m third" {
			t.Errorf("code %d: %q", code, err)
		}
		var refusal *Error
		if !errors.As(err, &refusal) || refusal.Code != int(code) || refusal.Unwrap() != want {
			t.Errorf("code %d: %#v, want %v", code, refusal, want)
		}
	}
}

func TestConnectionsThatAreOfNoUse(t *testing.T) {
	c := &Client{config: Config{Socket: "/run/s"}}
	tests := []struct {
		err     error
		want    error
		noReply bool
		broken  bool
	}{
		{libvirt.ErrInterrupted, errors.NotYetAvailable, true, true},
		{syscall.EINVAL, errors.NotYetAvailable, false, true},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, errors.NotYetAvailable, false, true},
		{libvirt.ErrUnsupported, errors.NotSupported, false, false},
		{errors.New("xdr: no"), nil, false, true},
	}
	for _, test := range tests {
		broken, err := c.classify(test.err)
		if broken != test.broken || errors.Is(err, ErrNoReply) != test.noReply {
			t.Errorf("%v: %v, broken %v", test.err, err, broken)
		}
		if test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%v: %v is no %v", test.err, err, test.want)
		}
		if test.broken && !strings.Contains(err.Error(), "/run/s") {
			t.Errorf("%v: %v does not name the socket", test.err, err)
		}
	}
}

func TestMessagesAreShortLines(t *testing.T) {
	for message, want := range map[string]string{
		"":                        "no message",
		" \n\t ":                  "no message",
		"a\xffb":                  "a b",
		strings.Repeat("ä", 9999): strings.Repeat("ä", 250) + "...",
	} {
		if got := oneLine(message); got != want {
			t.Errorf("%.20q: %q", message, got)
		}
	}
}

// stream is packets of these lengths; the answer to the opening is the last but one.
func stream(lengths ...uint32) []byte {
	var b []byte
	for i, length := range lengths {
		header := make([]byte, max(length, headerLength))
		binary.BigEndian.PutUint32(header, length)
		if i == len(lengths)-2 {
			binary.BigEndian.PutUint32(header[4:], remoteProgram)
			binary.BigEndian.PutUint32(header[12:], procedureOpen)
			binary.BigEndian.PutUint32(header[16:], typeReply)
		}
		b = append(b, header...)
	}
	return b
}

func TestWireFollowsPacketsHoweverTheyAreCut(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	feed := func(w *wire, data []byte) error {
		for len(data) > 0 {
			n := 1 + random.IntN(len(data))
			if err := w.follow(data[:n]); err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	}
	for range 500 {
		lengths := []uint32{headerLength}
		for range random.IntN(5) {
			lengths = append(lengths, headerLength+random.Uint32N(100))
		}
		w := &wire{}
		if err := feed(w, stream(lengths...)); err != nil || w.got != 0 || w.left != 0 || w.answered != (len(lengths) > 1) {
			t.Fatalf("lengths %v: %v, %d, %d, answered %v", lengths, err, w.got, w.left, w.answered)
		}
		bad := []uint32{0, 27, maxPacket + 1, 1 << 31}[random.IntN(4)]
		w = &wire{}
		data := append(stream(lengths...), stream(headerLength)...)
		binary.BigEndian.PutUint32(data[len(data)-headerLength:], bad)
		if err := feed(w, data); err == nil {
			t.Fatalf("a packet of %d bytes is let through", bad)
		}
	}
}

// What go-libvirt could trip over: the end of a connection while its beginning is just
// being completed.
func TestWireEndsAfterTheBeginningIsComplete(t *testing.T) {
	here, there := net.Pipe()
	w := newWire(here)
	data := stream(headerLength, headerLength)
	go func() {
		_, _ = there.Write(data)
		_ = there.Close()
	}()
	got := make([]byte, len(data))
	for read := 0; read < len(got); {
		n, err := w.Read(got[read:])
		if err != nil {
			t.Fatal(err)
		}
		read += n
	}
	if !bytes.Equal(got, data) {
		t.Fatal("other data")
	}
	ended := make(chan error)
	go func() {
		_, err := w.Read(make([]byte, 1))
		ended <- err
	}()
	<-w.gone
	select {
	case err := <-ended:
		t.Fatalf("the end is told during the beginning: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	w.handshaken()
	if err := <-ended; err == nil {
		t.Fatal("no end")
	}
	if _, err := w.Read(make([]byte, 1)); err == nil || !w.broken() {
		t.Fatal("no end any more")
	}
}

func TestValues(t *testing.T) {
	const text = "01234567-89ab-cdef-0123-456789abcdef"
	uuid, err := parseUUID(text)
	if err != nil || formatUUID(uuid) != text {
		t.Errorf("%s: %v, %v", text, formatUUID(uuid), err)
	}
	for _, bad := range []string{"", "x", text[1:], text + "00", "g" + text[1:]} {
		if _, err := parseUUID(bad); !errors.Is(err, errors.NotValid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for address, bits := range map[string]uint32{"": 24, "x": 24, "192.0.2.1": 33, "2001:db8::1": 129, "192.0.2.2": 1 << 31} {
		if p, ok := prefix(address, bits); ok {
			t.Errorf("%s/%d: %v", address, bits, p)
		}
	}
	if p, ok := prefix("192.0.2.1", 24); !ok || p.String() != "192.0.2.1/24" {
		t.Errorf("%v", p)
	}
	if got := Version(9001002).String(); got != "9.1.2" {
		t.Error(got)
	}
	if got := nameIn("<pool><name> a </name>"); got != "a" && got != "" {
		t.Error(got)
	}
}
