package images

import (
	"cmp"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/clock"
	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/host"
)

// DefaultStallTimeout is for how long a server may send nothing, if nothing else is said.
const DefaultStallTimeout = time.Minute

// Config is what a store is made with. Dir is required.
type Config struct {
	// Dir is the absolute path of a folder with these files and nobody else's. It need not
	// be there before the first use.
	Dir string
	// Host is where qemu-img runs; this machine by default.
	Host host.Host
	// Clock is where time comes from; the wall clock by default.
	Clock clock.Clock
	// HTTP fetches images; by default a client with the environment's proxies. Its
	// Timeout, for a whole download, and its CheckRedirect are not used.
	HTTP *http.Client
	// FreeSpace returns how many bytes can be written in a folder; what the file system
	// says by default.
	FreeSpace func(dir string) (uint64, error)
	// StallTimeout is for how long a server may send nothing; 1 min by default.
	StallTimeout time.Duration
	// Logger hears what is done; nil discards.
	Logger *slog.Logger
}

// Validate returns errors.NotValid, naming the field.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.Dir):
		return errors.NotValidf("Dir %q (want an absolute path)", c.Dir)
	case c.StallTimeout < 0:
		return errors.NotValidf("negative StallTimeout")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Dir = filepath.Clean(c.Dir)
	if c.Host == nil {
		c.Host = host.New(host.Config{})
	}
	if c.Clock == nil {
		c.Clock = clock.WallClock
	}
	if c.HTTP == nil {
		c.HTTP = defaultHTTP()
	}
	// A copy, for it to follow no redirect by itself.
	client := *c.HTTP
	client.Timeout = 0
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTP = &client
	if c.FreeSpace == nil {
		c.FreeSpace = freeSpace
	}
	c.StallTimeout = cmp.Or(c.StallTimeout, DefaultStallTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// defaultHTTP has no limit for a whole download, which may take hours, and limits for
// everything before it.
func defaultHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		DisableKeepAlives:     true, // nothing is left behind
	}}
}

// Source is where an image comes from.
type Source struct {
	// URL is file:///PATH, http://... or https://...; it may have a password in it.
	URL string
	// SHA256 is the image's checksum in hex. Required.
	SHA256 string
	// Size is in bytes; 0 if it is not known.
	Size uint64
}

// maxSize bounds an image, be it a file or the disk in it.
const maxSize = 1 << 40 // bytes

// Validate returns errors.NotValid, naming the field.
func (s Source) Validate() error {
	_, _, err := s.parse()
	return err
}

// parse returns the address and the checksum, in the form that names have.
func (s Source) parse() (*url.URL, string, error) {
	u, err := parseURL(s.URL)
	if err != nil {
		return nil, "", err
	}
	sum, err := hex.DecodeString(s.SHA256)
	if err != nil || len(sum) != 32 {
		return nil, "", errors.NotValidf("SHA256 %q of the image (want 64 hex digits)", shortened(s.SHA256))
	}
	if s.Size > maxSize {
		return nil, "", errors.NotValidf("Size of %d bytes of the image (want %d at most)", s.Size, uint64(maxSize))
	}
	return u, hex.EncodeToString(sum), nil
}

// parseURL quotes nothing of an address that it refuses: there may be a password in it,
// anywhere.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.NotValidf("URL of the image (want file:///PATH, http://... or https://...)")
	}
	switch u.Scheme {
	case "http", "https":
		if u.Hostname() == "" || u.Opaque != "" {
			return nil, errors.NotValidf("URL of the image: no host in it: that")
		}
	case "file":
		if u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || strings.Contains(u.Path, "\x00") {
			return nil, errors.NotValidf("URL of the image (want file:///PATH)")
		}
	default:
		return nil, errors.NotValidf("URL of the image, of scheme %q (want file, http or https),", shortened(u.Scheme))
	}
	return u, nil
}

// redacted is what may be told of an address.
func redacted(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func shortened(s string) string {
	const most = 64
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
