package virt

import (
	"encoding/binary"
	"net"
	"sync"

	"github.com/juju/errors"
)

const (
	// headerLength is that of a packet's length and header, in bytes.
	headerLength = 28
	// maxPacket is the greatest packet of libvirt's, in bytes.
	maxPacket = 32<<20 + headerLength

	// remoteProgram, procedureOpen, typeReply and statusOK are in the header of the
	// last answer of the beginning.
	remoteProgram = 0x20008086
	procedureOpen = 1
	typeReply     = 1
	statusOK      = 0
)

// wire is the connection below go-libvirt, and its dialer. It follows the packets
// that are read, for two reasons: go-libvirt believes every length, and
// panics over one that is too small; and it lacks a lock between the end of
// its beginning and the end of the connection, which wire keeps apart.
type wire struct {
	net.Conn

	// open is closed when go-libvirt has completed its beginning, well or not.
	open     chan struct{}
	openOnce sync.Once
	// gone is closed when nothing will be read any more.
	gone     chan struct{}
	goneOnce sync.Once

	// What follows is used by the reading goroutine alone.
	header   [headerLength]byte
	got      int // of the header
	left     int // of the packet's payload
	answered bool
	err      error
}

func newWire(conn net.Conn) *wire {
	return &wire{Conn: conn, open: make(chan struct{}), gone: make(chan struct{})}
}

// Dial is what go-libvirt asks for a connection.
func (w *wire) Dial() (net.Conn, error) { return w, nil }

// handshaken says that go-libvirt has completed its beginning.
func (w *wire) handshaken() { w.openOnce.Do(func() { close(w.open) }) }

// broken tells whether the connection has ended.
func (w *wire) broken() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// Read reads, and follows the packets.
func (w *wire) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.Conn.Read(p)
	if bad := w.follow(p[:n]); bad != nil {
		n, err = 0, bad
		_ = w.Conn.Close()
	}
	if err != nil {
		w.err = err
		w.goneOnce.Do(func() { close(w.gone) })
		if w.answered {
			// The last answer is on its way to who waits for it, so this ends.
			<-w.open
		}
	}
	return n, err
}

// follow looks at what was read, for lengths and for the last answer of the
// beginning.
func (w *wire) follow(p []byte) error {
	for len(p) > 0 {
		if w.left > 0 {
			n := min(w.left, len(p))
			w.left -= n
			p = p[n:]
			continue
		}
		n := copy(w.header[w.got:], p)
		w.got += n
		p = p[n:]
		if w.got < headerLength {
			return nil
		}
		w.got = 0
		word := func(i int) uint32 { return binary.BigEndian.Uint32(w.header[4*i:]) }
		length := word(0)
		if length < headerLength || length > maxPacket {
			return errors.Errorf("packet of %d bytes", length)
		}
		w.left = int(length) - headerLength
		if word(1) == remoteProgram && word(3) == procedureOpen && word(4) == typeReply && word(6) == statusOK {
			w.answered = true
		}
	}
	return nil
}
