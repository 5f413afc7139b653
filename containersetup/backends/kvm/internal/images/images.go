package images

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/juju/clock"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// Config is what a store is made with. Dir is required.
type Config struct {
	// Dir is an absolute path of a folder that is there, with the agent's images and
	// nothing else.
	Dir string
	// Host is where qemu-img runs; this machine by default.
	Host host.Host
	// Clock is where time comes from; the wall clock by default.
	Clock clock.Clock
	// HTTP fetches images; by default a client that follows the environment's proxies.
	// Its redirect policy and its Timeout are not used.
	HTTP *http.Client
	// FreeSpace returns how many bytes can be written in a folder; what the file system
	// says by default.
	FreeSpace func(dir string) (uint64, error)
	// StallTimeout is for how long a server may send nothing; 1 min by default.
	StallTimeout time.Duration
	// Logger hears what is done; nil discards.
	Logger *slog.Logger
}

// Source is where an image comes from.
type Source struct {
	// URL is file:///PATH, http://... or https://...
	URL string
	// SHA256 is the image's checksum in hex. Required.
	SHA256 string
	// Size is in bytes; 0 if it is not known.
	Size uint64
}

// Image is a base image.
type Image struct {
	Path string
	// Format is "qcow2" or "raw".
	Format string
	// VirtualSize is that of the disk in it, in bytes.
	VirtualSize uint64
}

// Store is a folder of images.
type Store struct{ config Config }

// New returns a store.
func New(config Config) (*Store, error) { return &Store{config}, nil }

// Fetch returns the base image of a source.
func (s *Store) Fetch(ctx context.Context, source Source) (Image, error) { return Image{}, nil }

// Overlay makes an instance's disk on a base image.
func (s *Store) Overlay(ctx context.Context, base Image, name string, sizeMiB uint64) (string, error) {
	return "", nil
}

// WriteSeed writes an instance's seed.
func (s *Store) WriteSeed(ctx context.Context, name string, data []byte) (string, error) {
	return "", nil
}

// Files are those of one instance.
type Files struct {
	Disk, Seed, Console string
}

// Files returns the paths of an instance's files, whether they are there or not.
func (s *Store) Files(name string) (Files, error) { return Files{}, nil }

// Names returns the instances that have files here.
func (s *Store) Names(ctx context.Context) ([]string, error) { return nil, nil }

// RemoveInstanceFiles removes whatever there is of an instance.
func (s *Store) RemoveInstanceFiles(ctx context.Context, name string) error { return nil }

// Hold keeps every other caller, of any process, from holding the same instance, until it
// is released.
func (s *Store) Hold(ctx context.Context, name string) (release func(), err error) { return nil, nil }
