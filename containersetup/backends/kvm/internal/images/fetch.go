package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"
)

// forgotten is for how long a download stays that nobody goes on with.
const forgotten = 24 * time.Hour

// Ends of the names of base images, and of those that are downloaded.
const (
	baseBegin = "base-"
	baseEnd   = ".img"
	partEnd   = ".part"
)

// Fetch returns the base image of a source, which is fetched unless it is there already.
// See the package's documentation for how, and for the errors.
func (s *Store) Fetch(ctx context.Context, source Source) (Image, error) {
	from, sum, err := source.parse()
	if err != nil {
		return Image{}, err
	}
	path := filepath.Join(s.config.Dir, baseBegin+sum+baseEnd)
	image, err := s.there(ctx, path, source)
	if errors.Is(err, errors.NotFound) {
		image, err = s.fetch(ctx, from, sum, path, source)
	}
	return image, errors.Annotatef(noSpace(err), "image %s", redacted(from))
}

// there returns the image if it was fetched before: errors.NotFound if not.
func (s *Store) there(ctx context.Context, path string, source Source) (Image, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Image{}, errors.NotFoundf("image")
	case err != nil:
		return Image{}, err
	case source.Size != 0 && uint64(info.Size()) != source.Size:
		// Either what it was fetched by, or what it is by now, is wrong. There may be
		// disks on it, so that it is not replaced.
		return Image{}, errors.NotValidf("%s, of %d bytes and not of %d,", path, info.Size(), source.Size)
	}
	return s.inspect(ctx, path)
}

// fetch has one image fetched at a time: several would share what there is of a network,
// and for one image most of them would fetch it for nothing.
func (s *Store) fetch(ctx context.Context, from *url.URL, sum, path string, source Source) (Image, error) {
	release, err := s.locks.acquire(ctx, "download", func() {
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "another process fetches an image")
	})
	if err != nil {
		return Image{}, err
	}
	defer release()
	image, err := s.there(ctx, path, source)
	if !errors.Is(err, errors.NotFound) {
		return image, err
	}
	part := filepath.Join(s.config.Dir, "."+baseBegin+sum+partEnd)
	s.forget(ctx, part)
	s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "fetching an image", slog.String("from", redacted(from)))
	begun := s.config.Clock.Now()
	if image, err = s.complete(ctx, from, sum, part, source); err != nil {
		return Image{}, err
	}
	if err := os.Chmod(part, baseMode); err != nil {
		return Image{}, err
	}
	if err := putInPlace(part, path); err != nil {
		return Image{}, err
	}
	s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "image fetched", slog.String("from", redacted(from)),
		slog.Duration("took", s.config.Clock.Now().Sub(begun)))
	image.Path = path
	return image, nil
}

// complete has a download be there that is what was asked for. One that is wrong is
// removed; one that was interrupted stays, for the rest to be asked for.
func (s *Store) complete(ctx context.Context, from *url.URL, sum, part string, source Source) (Image, error) {
	for first := true; ; first = false {
		doubtful, err := s.download(ctx, from, part, source.Size)
		var image Image
		if err == nil {
			image, err = s.judge(ctx, part, sum, source)
		}
		if err == nil || !errors.Is(err, errors.NotValid) {
			return image, err
		}
		if removeErr := os.Remove(part); removeErr != nil && !errors.Is(removeErr, fs.ErrNotExist) {
			return Image{}, removeErr
		}
		if !doubtful || !first {
			return Image{}, err
		}
		// Its parts may be of different things; what is fetched now is not.
		s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "the image is fetched anew: its parts do not fit",
			slog.String("from", redacted(from)))
	}
}

// forget removes downloads that nobody has gone on with. They are this store's alone: all
// others wait.
func (s *Store) forget(ctx context.Context, but string) {
	entries, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return // there is nothing then
	}
	for _, entry := range entries {
		part := filepath.Join(s.config.Dir, entry.Name())
		if !strings.HasPrefix(entry.Name(), "."+baseBegin) || !strings.HasSuffix(part, partEnd) {
			continue
		}
		info, err := os.Stat(part)
		if part == but || err != nil || s.config.Clock.Now().Sub(info.ModTime()) < forgotten {
			continue
		}
		if os.Remove(part) == nil {
			s.config.Logger.LogAttrs(ctx, slog.LevelInfo, "a download that was given up is removed", slog.String("file", part))
		}
	}
}

// judge returns errors.NotValid unless a download is what was asked for.
func (s *Store) judge(ctx context.Context, part, sum string, source Source) (Image, error) {
	got, size, err := checksum(ctx, part)
	switch {
	case err != nil:
		return Image{}, err
	case source.Size != 0 && size != source.Size:
		return Image{}, errors.NotValidf("size of %d bytes (want %d)", size, source.Size)
	case got != sum:
		return Image{}, errors.NotValidf("SHA256 %s (want %s)", got, sum)
	}
	return s.inspect(ctx, part)
}

// checksum reads what is on disk: what was written before a crash counts as well.
func checksum(ctx context.Context, path string) (sum string, size uint64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	n, err := io.Copy(h, reader{ctx, f})
	return hex.EncodeToString(h.Sum(nil)), uint64(n), err
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
