package images

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

const (
	// attempts is how many in a row may bring nothing new.
	attempts = 6
	// firstPause is between the first two; each one is twice as long as the one before.
	firstPause = time.Second
	// progress is what an attempt has to bring for it to count as one that did.
	progress = 64 << 10 // bytes
	// redirects is how many may follow each other.
	redirects = 10
	// tellEvery is how often it is told how far a download has come.
	tellEvery = 30 * time.Second
	// lookEvery is after how many bytes it is looked whether there is still room.
	lookEvery = 64 << 20 // bytes
)

// errStalled is why a server that sends nothing is broken off.
const errStalled = errors.ConstError("server that sends nothing")

// download is one image on its way into a file.
type download struct {
	*Store
	from *url.URL
	file *os.File
	// size is the image's, 0 if it is not known.
	size uint64
	// have is how much of it is there.
	have uint64
	// etag is of what is there: strong, or else it is a date.
	etag string
	// doubtful says that what is there may be of different things.
	doubtful bool

	told time.Time
}

// download has the file be complete, starting from what of it is there. It tells whether
// the parts may be of different things.
func (s *Store) download(ctx context.Context, from *url.URL, part string, size uint64) (doubtful bool, err error) {
	if err := s.begin(0); err != nil {
		return false, err
	}
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, privateMode)
	if err != nil {
		return false, err
	}
	have, err := f.Seek(0, io.SeekEnd)
	d := download{Store: s, from: from, file: f, size: size, have: uint64(have), told: s.config.Clock.Now()}
	switch {
	case err != nil:
	case from.Scheme == "file":
		err = d.copyFile(ctx)
	default:
		d.doubtful = have > 0 // an earlier process fetched it
		if size != 0 && d.have > size {
			err = d.restart()
		}
		if err == nil {
			err = d.get(ctx)
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err = noSpace(err); err != nil && (d.have == 0 || errors.Is(err, ErrNoSpace)) {
		_ = os.Remove(part) // it is what there is no space for
	}
	return d.doubtful, err
}

// get asks for what is lacking until it is there, or until that does not help.
func (d *download) get(ctx context.Context) error {
	best, failures := d.have, 0
	for {
		again, err := d.attempt(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Annotatef(ctx.Err(), "after %d bytes", d.have)
		}
		if !again {
			return err
		}
		if d.have >= best+progress {
			best, failures = d.have, 0
		}
		if failures++; failures == attempts {
			return errors.Annotatef(err, "after %d attempts that brought nothing new", attempts)
		}
		pause := firstPause << (failures - 1)
		d.config.Logger.LogAttrs(ctx, slog.LevelInfo, "the download is interrupted", slog.String("from", redacted(d.from)),
			slog.Uint64("bytes", d.have), slog.Duration("pause", pause), slog.Any("err", err))
		select {
		case <-d.config.Clock.After(pause):
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "after %d bytes", d.have)
		}
	}
}

// attempt makes one request and takes what comes. It tells whether it may help to make
// another one when it failed.
func (d *download) attempt(ctx context.Context) (again bool, err error) {
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := d.config.Clock.AfterFunc(d.config.StallTimeout, func() { cancel(errStalled) })
	defer stalled.Stop()

	resp, again, err := d.request(limited)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		again, err = d.take(limited, resp, func() { stalled.Reset(d.config.StallTimeout) })
	}
	if err != nil && context.Cause(limited) == errStalled {
		return true, errors.Timeoutf("%v for %s", errStalled, d.config.StallTimeout)
	}
	return again, err
}

// request returns the answer of the server that redirects lead to.
func (d *download) request(ctx context.Context) (resp *http.Response, again bool, err error) {
	at := d.from
	for range redirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
		if err != nil {
			return nil, false, errors.NotValidf("address")
		}
		// Not even if the client is one that asks for it.
		req.Header.Set("Accept-Encoding", "identity")
		if d.have > 0 {
			req.Header.Set("Range", "bytes="+strconv.FormatUint(d.have, 10)+"-")
			if d.etag != "" {
				req.Header.Set("If-Range", d.etag)
			}
		}
		resp, err := d.config.HTTP.Do(req)
		if err != nil {
			return nil, true, withoutAddress(err)
		}
		location := resp.Header.Get("Location")
		if location == "" || resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp, false, nil
		}
		_ = resp.Body.Close()
		if at, err = follow(at, location); err != nil {
			return nil, false, err
		}
	}
	return nil, false, errors.Errorf("more than %d redirects", redirects)
}

// follow returns where a redirect leads to. Only the same server is told the password.
func follow(from *url.URL, location string) (*url.URL, error) {
	ref, err := url.Parse(location)
	if err != nil {
		return nil, errors.Errorf("redirect to an address that is none")
	}
	to := from.ResolveReference(ref)
	if to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "" {
		return nil, errors.NotValidf("redirect to an address of scheme %q", shortened(to.Scheme))
	}
	if to.User == nil && to.Scheme == from.Scheme && to.Host == from.Host {
		to.User = from.User
	}
	return to, nil
}

// take reads an answer.
func (d *download) take(ctx context.Context, resp *http.Response, alive func()) (again bool, err error) {
	rest := resp.ContentLength // -1 if it is not told
	var told uint64            // the whole's size, if a part tells it
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		if err := d.restart(); err != nil {
			return false, err
		}
	case code == http.StatusPartialContent:
		from, all, ok := rangeOf(resp)
		if told = all; !ok || from != d.have {
			return true, d.because(d.restart(), errors.New("answer with another part than was asked for"))
		}
		// Without a check by the server it is not known whether it is still the same; a
		// date may be of two that were put there in one second.
		if d.etag == "" || !strings.HasPrefix(d.etag, `"`) {
			d.doubtful = true
		}
	case code == http.StatusRequestedRangeNotSatisfiable && d.have > 0:
		if total, ok := contentRange(resp.Header.Get("Content-Range"), `^bytes \*/([0-9]{1,18})$`); ok && total[0] == d.have {
			d.doubtful = true
			return false, nil // all was there
		}
		return true, d.because(d.restart(), statusError(resp))
	case code == http.StatusNotFound || code == http.StatusGone:
		return false, errors.WithType(statusError(resp), errors.NotFound)
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return true, statusError(resp)
	default:
		return false, statusError(resp)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") || resp.Uncompressed {
		return false, errors.NotValidf("answer that is compressed (Content-Encoding %q)", shortened(encoding))
	}
	d.etag = validator(resp.Header)
	if told == 0 && rest >= 0 {
		told = d.have + uint64(rest)
	}
	if d.size != 0 && told != 0 && told != d.size {
		return false, errors.NotValidf("size of %d bytes (want %d)", told, d.size)
	}
	total := max(told, d.size)
	if total > maxSize {
		return false, errors.NotValidf("size of %d bytes (want %d at most)", total, uint64(maxSize))
	}
	if total > d.have {
		if err := d.room(total - d.have); err != nil {
			return false, err
		}
	}
	if again, err = d.copy(ctx, resp.Body, alive); err != nil {
		return again, err
	}
	if d.have < total {
		// One that has not told its own length ends as if it were complete.
		return true, errors.Errorf("answer that ends after %d of %d bytes", d.have, total)
	}
	return false, nil
}

// because returns the error of what was done about another one, or else that other.
func (d *download) because(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// restart begins with nothing.
func (d *download) restart() error {
	d.have, d.etag, d.doubtful = 0, "", false
	if err := d.file.Truncate(0); err != nil {
		return err
	}
	_, err := d.file.Seek(0, io.SeekStart)
	return err
}

// copy appends what comes. What was written stays, whatever happens then. It tells whether
// another attempt may help.
func (d *download) copy(ctx context.Context, from io.Reader, alive func()) (again bool, err error) {
	most := uint64(maxSize)
	if d.size != 0 {
		most = d.size
	}
	buffer := make([]byte, 256<<10)
	looked := d.have
	for {
		n, readErr := from.Read(buffer)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		alive()
		if d.have+uint64(n) > most {
			return false, errors.NotValidf("size of more than %d bytes (want %d)", most, most)
		}
		written, err := d.file.Write(buffer[:n])
		d.have += uint64(written)
		if err != nil {
			return false, err
		}
		switch {
		case readErr == io.EOF:
			return false, nil
		case readErr != nil:
			return true, withoutAddress(readErr)
		}
		if d.have-looked >= lookEvery {
			looked = d.have
			if err := d.room(0); err != nil {
				return false, err
			}
		}
		if now := d.config.Clock.Now(); now.Sub(d.told) >= tellEvery {
			d.told = now
			d.config.Logger.LogAttrs(ctx, slog.LevelInfo, "the image is being fetched", slog.String("from", redacted(d.from)),
				slog.Uint64("bytes", d.have), slog.Uint64("of", d.size))
		}
	}
}

// copyFile copies a file of this machine. It is not linked to: it may change later.
func (d *download) copyFile(ctx context.Context) error {
	if err := d.restart(); err != nil {
		return err
	}
	info, err := os.Stat(d.from.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.NotFoundf("file")
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.NotValidf("%s, not a file,", info.Mode().Type())
	case d.size != 0 && uint64(info.Size()) != d.size:
		return errors.NotValidf("size of %d bytes (want %d)", info.Size(), d.size)
	}
	if err := d.room(uint64(info.Size())); err != nil {
		return err
	}
	f, err := os.Open(d.from.Path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = d.copy(ctx, f, func() {})
	return err
}

// statusError is of an answer that is none. Nothing of its body is told: it may have
// anything in it.
func statusError(resp *http.Response) error {
	return errors.Errorf("server answers %d (%s)", resp.StatusCode, http.StatusText(resp.StatusCode))
}

// validator returns what tells an image from another one at the same address: the tag, or
// else the date.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return h.Get("Last-Modified")
}

// rangeOf returns where a part begins and the whole's size, 0 if it is not told; ok is
// false for a part that the server does not describe, or not as it is.
func rangeOf(resp *http.Response) (from, all uint64, ok bool) {
	n, ok := contentRange(resp.Header.Get("Content-Range"), `^bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)$`)
	if !ok || n[1] < n[0] || resp.ContentLength >= 0 && uint64(resp.ContentLength) != n[1]-n[0]+1 {
		return 0, 0, false
	}
	return n[0], n[2], n[2] == 0 || n[2] > n[1]
}

// contentRange returns the numbers in a header; a star is 0.
func contentRange(header, pattern string) ([]uint64, bool) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(header)
	if found == nil {
		return nil, false
	}
	var numbers []uint64
	for _, text := range found[1:] {
		n, err := strconv.ParseUint(strings.TrimPrefix(text, "*"), 10, 64)
		if err != nil && text != "*" {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}

// withoutAddress takes the address away from what a client says, and leaves out what has
// another one in it, such as that of a proxy: there may be a password in it.
func withoutAddress(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	if text := err.Error(); strings.Contains(text, "@") || strings.Contains(text, "://") {
		return errors.New("request that cannot be made (the address of a proxy, or of a redirect, may be wrong)")
	}
	return err
}
