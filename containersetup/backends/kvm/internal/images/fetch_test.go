package images_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/sutler-dev/sutler/containersetup/backends/kvm/internal/images"
)

func testTime() time.Time { return time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC) }

const kib = 1 << 10

func TestAnImageIsFetchedOnce(t *testing.T) {
	w, data := newWorld(t), rawImage(1, 300*kib)
	source := w.serve(data)
	source.SHA256 = strings.ToUpper(source.SHA256)
	for range 3 {
		image, err := w.store.Fetch(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		want := images.Image{Path: filepath.Join(w.dir, "base-"+sumOf(data)+".img"), Format: "raw", VirtualSize: 300 * kib}
		if image != want {
			t.Errorf("got %+v, want %+v", image, want)
		}
	}
	w.expectFetched(source, data)
	if got := w.server.ranges(); len(got) != 1 {
		t.Errorf("%d requests", len(got))
	}
	if encoding := w.server.requests[0].Header.Get("Accept-Encoding"); encoding != "identity" {
		t.Errorf("asked for encoding %q", encoding)
	}
	info, err := os.Stat(filepath.Join(w.dir, "base-"+sumOf(data)+".img"))
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if !strings.Contains(w.log.String(), "image fetched") {
		t.Errorf("log: %s", w.log)
	}
}

func TestAnImageThatIsAnotherSizeNowIsRefusedAndStays(t *testing.T) {
	w, data := newWorld(t), rawImage(1, 4*kib)
	source := w.serve(data)
	w.expectFetched(source, data)
	source.Size++
	_, err := w.store.Fetch(t.Context(), source)
	expectError(t, err, errors.NotValid, "4096", "4097")
	w.expectFiles(".lock", "base-"+sumOf(data)+".img")
}

// TestFaultsOfServers plays each fault in virtual time: what comes of it, and after which
// requests.
func TestFaultsOfServers(t *testing.T) {
	data := rawImage(1, 300*kib)
	other := rawImage(2, 300*kib)
	size := fmt.Sprint(len(data))
	from := func(n int) string { return fmt.Sprintf("%d-", n) }
	type fault struct {
		name    string
		answers []answer
		change  func(*images.Source)
		// left is what an earlier process left of a download.
		left []byte
		// asked are the ranges of the requests; nil is for one request for all.
		asked []string
		took  time.Duration

		kind  error
		fails bool
		says  []string
		// keeps says that the part stays, to be gone on with.
		keeps bool
	}
	anySize := func(s *images.Source) { s.Size = 0 }
	faults := []fault{
		{name: "none, of unknown size", change: anySize},
		{name: "none, of unknown size and length", change: anySize, answers: []answer{{noLength: true}}},
		{name: "body cut short", answers: []answer{{cut: 100 * kib}, {}}, asked: []string{"", from(100 * kib)}, took: time.Second},
		{name: "body cut short thrice", answers: []answer{{cut: 100 * kib}, {cut: 1000}, {cut: 10}, {}},
			asked: []string{"", from(102400), from(103400), from(103410)}, took: 7 * time.Second},
		{name: "body of unknown length cut short", answers: []answer{{cut: 100 * kib, noLength: true}, {}}, asked: []string{"", from(102400)}, took: time.Second},
		{name: "body of unknown length and size cut short", change: anySize, answers: []answer{{cut: 100 * kib, noLength: true}},
			fails: true, kind: errors.NotValid, says: []string{sumOf(data), sumOf(data[:102400])}},
		{name: "ranges unknown", answers: []answer{{cut: 100 * kib, noRanges: true}, {noRanges: true}}, asked: []string{"", from(102400)}, took: time.Second},
		{name: "ranges unknown, cut for ever", answers: []answer{{cut: 100 * kib, noRanges: true}}, fails: true,
			asked: []string{"", from(102400), from(102400), from(102400), from(102400), from(102400)}, took: 31 * time.Second, says: []string{"6 attempts", "unexpected EOF"}, keeps: true},
		{name: "another tag in between", answers: []answer{{cut: 100 * kib}, {tag: `"two"`}}, asked: []string{"", from(102400)}, took: time.Second},
		{name: "another image without a tag in between",
			answers: []answer{{handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other) }, cut: 100 * kib}, {tag: "-"}, {}},
			asked:   []string{"", from(102400), ""}, took: time.Second},
		{name: "never the same image", answers: []answer{{handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other) }}},
			fails: true, kind: errors.NotValid, says: []string{sumOf(data), sumOf(other)}},
		{name: "another part than was asked for", answers: []answer{{cut: 100 * kib}, status(206, "Content-Range", "bytes 0-20/"+size), {}},
			asked: []string{"", from(102400), ""}, took: 3 * time.Second},
		{name: "a part that is not described", answers: []answer{{cut: 100 * kib}, status(206), {}}, asked: []string{"", from(102400), ""}, took: 3 * time.Second},
		{name: "a part of a part", answers: []answer{{cut: 100 * kib}, {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 102400-202399/"+size)
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(data[102400:202400])
		}}, {}}, asked: []string{"", from(102400), from(202400)}, took: 2 * time.Second},
		{name: "another length than told", change: func(s *images.Source) { s.Size++ }, fails: true, kind: errors.NotValid, says: []string{size, fmt.Sprint(len(data) + 1)}},
		{name: "a longer body", change: func(s *images.Source) { s.Size = 1000 }, answers: []answer{{noLength: true}}, fails: true, kind: errors.NotValid, says: []string{"1000"}},
		{name: "too large to be an image", change: anySize, fails: true, kind: errors.NotValid,
			answers: []answer{{handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9000000000000000") }}}, says: []string{"9000000000000000"}},
		{name: "compressed", answers: []answer{status(200, "Content-Encoding", "gzip")}, fails: true, kind: errors.NotValid, says: []string{"gzip"}, change: anySize},
		{name: "404", answers: []answer{status(404)}, fails: true, kind: errors.NotFound, says: []string{"404"}},
		{name: "410", answers: []answer{status(410)}, fails: true, kind: errors.NotFound, says: []string{"410"}},
		{name: "403", answers: []answer{status(403)}, fails: true, says: []string{"403"}},
		{name: "500 once", answers: []answer{status(500), {}}, asked: []string{"", ""}, took: time.Second},
		{name: "429, 503, 408", answers: []answer{status(429), status(503), status(408), {}}, asked: []string{"", "", "", ""}, took: 7 * time.Second},
		{name: "503 for ever", answers: []answer{status(503)}, fails: true, asked: slices.Repeat([]string{""}, 6), took: 31 * time.Second, says: []string{"503", "6 attempts"}},
		{name: "503 in the middle", answers: []answer{{cut: 100 * kib}, status(503), {}}, asked: []string{"", from(102400), from(102400)}, took: 3 * time.Second},
		{name: "304, unasked for", answers: []answer{status(304)}, fails: true, says: []string{"304"}},
		{name: "204", answers: []answer{status(204)}, fails: true, says: []string{"204"}},
		{name: "not to be reached", answers: []answer{{err: syscall.ECONNREFUSED}}, fails: true, kind: syscall.ECONNREFUSED, asked: slices.Repeat([]string{""}, 6), took: 31 * time.Second},
		{name: "silence", answers: []answer{{stall: true}, {}}, asked: []string{"", ""}, took: 61 * time.Second},
		{name: "silence in the middle", answers: []answer{{cut: 100 * kib, stall: true}, {}}, asked: []string{"", from(102400)}, took: 61 * time.Second},
		{name: "silence for ever", answers: []answer{{stall: true}}, fails: true, kind: errors.Timeout, asked: slices.Repeat([]string{""}, 6), took: 391 * time.Second, says: []string{"sends nothing"}},
		{name: "redirects", answers: []answer{status(302, "Location", "/other"), status(307, "Location", "https://mirror.example/x"), {}}, asked: []string{"", "", ""}},
		{name: "redirects for ever", answers: []answer{status(301, "Location", "/other")}, fails: true, asked: slices.Repeat([]string{""}, 11), says: []string{"10 redirects"}},
		{name: "redirect to a file", answers: []answer{status(302, "Location", "file:///etc/passwd")}, fails: true, kind: errors.NotValid, says: []string{`"file"`}},
		{name: "redirect to nowhere", answers: []answer{status(302, "Location", "https:///x")}, fails: true, kind: errors.NotValid},
		{name: "redirect to nonsense", answers: []answer{status(302, "Location", "http://[hunter2")}, fails: true, asked: slices.Repeat([]string{""}, 6), took: 31 * time.Second, says: []string{"redirect"}},
		{name: "redirect without an address", answers: []answer{status(302)}, fails: true, says: []string{"302"}},

		{name: "left by an earlier process", left: data[:1000], asked: []string{from(1000)}},
		{name: "left by an earlier process, all of it", left: data, asked: []string{from(len(data))}},
		{name: "left by an earlier process, more than all of it", left: append(slices.Clone(data), 1, 2, 3), asked: []string{""}},
		{name: "left by an earlier process, more than all of it, of unknown size", change: anySize, left: append(slices.Clone(data), 1, 2, 3), asked: []string{from(len(data) + 3), ""}, took: time.Second},
		{name: "left by an earlier process, of another image", left: other[:1000], asked: []string{from(1000), ""}},
		{name: "left by an earlier process, all of another image", left: other, asked: []string{from(len(data)), ""}},
		{name: "left by an earlier process, of another image of a server that fails then", left: other[:1000], answers: []answer{{}, status(503)},
			asked: []string{from(1000), "", "", "", "", "", ""}, took: 31 * time.Second, fails: true, says: []string{"503"}},
		{name: "left by an earlier process for a server that knows no ranges", left: data[:1000], answers: []answer{{noRanges: true}}, asked: []string{from(1000)}},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				source := w.serve(data, f.answers...)
				if f.change != nil {
					f.change(&source)
				}
				if f.left != nil {
					write(t, w.part(data), f.left)
					if err := os.Chtimes(w.part(data), time.Now(), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
				begun := time.Now()
				if f.fails {
					_, err := w.store.Fetch(t.Context(), source)
					expectError(t, err, f.kind, append(f.says, "http://images.example/small.img")...)
					if strings.Contains(err.Error(), "hunter2") {
						t.Error(err)
					}
					if f.keeps {
						w.expectFiles(filepath.Base(w.part(data)), ".lock")
					} else {
						w.expectFiles(".lock")
					}
				} else {
					w.expectFetched(source, data)
				}
				if took := time.Since(begun); took != f.took {
					t.Errorf("took %v, want %v", took, f.took)
				}
				if f.asked == nil {
					f.asked = []string{""}
				}
				if got := w.server.ranges(); !slices.Equal(got, f.asked) {
					t.Errorf("asked for %q, want %q", got, f.asked)
				}
			})
		})
	}
}

func TestTheRestIsAskedForOnlyOfTheSameImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := rawImage(1, 300*kib)
		for tag, want := range map[string]string{`"one"`: `"one"`, `W/"weak"`: testTime().Format(http.TimeFormat), "-": testTime().Format(http.TimeFormat)} {
			w := newWorld(t)
			source := w.serve(data, answer{cut: 100 * kib, tag: tag}, answer{tag: tag})
			w.expectFetched(source, data)
			if got := w.server.requests[1].Header.Get("If-Range"); got != want {
				t.Errorf("tag %s: asked with If-Range %q, want %q", tag, got, want)
			}
		}
	})
}

// TestADownloadThatBreaksOftenGoesOnAsLongAsItGrows: what counts is what it brings.
func TestADownloadThatBreaksOftenGoesOnAsLongAsItGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, data := newWorld(t), rawImage(1, 2<<20)
		source := w.serve(data, answer{cut: 70 * kib})
		w.expectFetched(source, data)
		if got := len(w.server.ranges()); got != 31 { // the last one finds that all is there
			t.Errorf("%d requests", got)
		}
	})
}

func TestOnlyTheSameServerIsToldThePassword(t *testing.T) {
	w, data := newWorld(t), rawImage(1, 4*kib)
	source := w.serve(data, status(302, "Location", "/two"), status(302, "Location", "http://images.example/three"), status(302, "Location", "https://images.example/four"), answer{})
	source.URL = "http://user:hunter2@images.example/one"
	w.expectFetched(source, data)
	for n, want := range []bool{true, true, true, false} {
		if got := w.server.requests[n].URL.User != nil; got != want {
			t.Errorf("request %d: password told: %v", n, got)
		}
	}
}

// TestSecretsInAddressesAreNeverTold goes through all that can be said of an address.
func TestSecretsInAddressesAreNeverTold(t *testing.T) {
	data := rawImage(1, 300*kib)
	proxy := errors.New(`proxyconnect tcp: invalid proxy address "http://u:hunter2@proxy"`)
	for n, answers := range [][]answer{
		{}, {{cut: 100 * kib}, {}}, {status(404)}, {status(403)}, {status(503)}, {{err: syscall.ECONNREFUSED}}, {{err: proxy}}, {{stall: true}},
		{status(302, "Location", "file:///hunter2")}, {status(302, "Location", "http://hunter2@[x")}, {status(302, "Location", "/?hunter2")},
		{{handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hunter2") }}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			source := w.serve(data, answers...)
			source.URL = "https://user:hunter2@images.example/small.img?sig=hunter2#hunter2"
			_, err := w.store.Fetch(t.Context(), source)
			if n > 1 && err == nil {
				t.Errorf("%d: no error", n)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "https://images.example/small.img: ")) {
				t.Errorf("%d: %v", n, err)
			}
			if strings.Contains(w.log.String(), "hunter2") || w.log.Len() == 0 {
				t.Errorf("%d: log: %s", n, w.log)
			}
		})
	}
}

func TestADownloadIsToldOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, data := newWorld(t), rawImage(1, 300*kib)
		var answers []answer
		for range 3 {
			answers = append(answers, answer{cut: 70 * kib, stall: true})
		}
		source := w.serve(data, append(answers, answer{})...)
		w.expectFetched(source, data)
		if n := strings.Count(w.log.String(), "is being fetched"); n != 3 {
			t.Errorf("told %d times:\n%s", n, w.log)
		}
	})
}

// TestAnEndedContextEndsAFetchAtEachMoment has the part stay, and the next call go on.
func TestAnEndedContextEndsAFetchAtEachMoment(t *testing.T) {
	data := rawImage(1, 300*kib)
	for name, test := range map[string]struct {
		answers []answer
		after   time.Duration
		asked   int
	}{
		"before":         {after: 0, asked: 0},
		"silence":        {answers: []answer{{stall: true}, {}}, after: 30 * time.Second, asked: 2},
		"in the middle":  {answers: []answer{{cut: 100 * kib, stall: true}, {}}, after: 30 * time.Second, asked: 2},
		"during a pause": {answers: []answer{{cut: 100 * kib}, {}}, after: 500 * time.Millisecond, asked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				source := w.serve(data, test.answers...)
				ctx, cancel := context.WithTimeout(t.Context(), test.after)
				defer cancel()
				begun := time.Now()
				_, err := w.store.Fetch(ctx, source)
				expectError(t, err, context.DeadlineExceeded)
				if took := time.Since(begun); took != test.after {
					t.Errorf("took %v", took)
				}
				w.expectFetched(source, data)
				if got := w.server.ranges(); test.asked > 0 && len(got) != test.asked {
					t.Errorf("asked for %q", got)
				}
			})
		})
	}
}

func TestManyFetchOneImageOnce(t *testing.T) {
	w, data := newWorld(t), rawImage(1, 300*kib)
	source := w.serve(data)
	stores := []*images.Store{w.store, w.another(), w.another()}
	var group sync.WaitGroup
	for n := range 24 {
		group.Go(func() {
			if _, err := stores[n%len(stores)].Fetch(t.Context(), source); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.expectFetched(source, data)
	if got := w.server.ranges(); len(got) != 1 {
		t.Errorf("asked for %q", got)
	}
}

func TestOneImageIsFetchedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var there, most atomic.Int32
		var sources []images.Source
		byPath := map[string][]byte{}
		for n := range 5 {
			data := rawImage(uint64(n), 4*kib)
			byPath[fmt.Sprint("/", n)] = data
			sources = append(sources, images.Source{URL: fmt.Sprint("http://images.example/", n), SHA256: sumOf(data)})
		}
		w.serve(nil, answer{handler: func(rw http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), there.Add(1)))
			time.Sleep(time.Second)
			there.Add(-1)
			_, _ = rw.Write(byPath[r.URL.Path])
		}})
		stores := []*images.Store{w.store, w.another()}
		var group sync.WaitGroup
		for n, source := range sources {
			group.Go(func() {
				if _, err := stores[n%2].Fetch(t.Context(), source); err != nil {
					t.Error(err)
				}
			})
		}
		// Who waits for others follows its own context.
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err := w.store.Fetch(ctx, images.Source{URL: "http://images.example/x", SHA256: sumOf(nil)})
		expectError(t, err, context.DeadlineExceeded, "waiting for")
		group.Wait()
		if most.Load() != 1 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestAFullFileSystemIsSeenBefore(t *testing.T) {
	data := rawImage(1, 300*kib)
	const spare = 64 << 20
	for name, test := range map[string]struct {
		free   uint64
		change func(*images.Source)
		answer answer
		asked  int
	}{
		"by the size told":     {free: spare + 300*kib - 1, asked: 1, answer: answer{noLength: true}},
		"by the length":        {free: spare + 300*kib - 1, asked: 1, change: func(s *images.Source) { s.Size = 0 }},
		"before all":           {free: spare - 1, asked: 0},
		"nothing at all there": {free: 0, asked: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *images.Config) { c.FreeSpace = func(string) (uint64, error) { return test.free, nil } })
			source := w.serve(data, test.answer)
			if test.change != nil {
				test.change(&source)
			}
			_, err := w.store.Fetch(t.Context(), source)
			expectError(t, err, images.ErrNoSpace, w.dir, "MiB free")
			w.expectFiles(".lock")
			if got := w.server.ranges(); len(got) != test.asked {
				t.Errorf("asked for %q", got)
			}
		})
	}
	w := newWorld(t, func(c *images.Config) { c.FreeSpace = func(string) (uint64, error) { return spare + 300*kib, nil } })
	w.expectFetched(w.serve(data), data)
}

func TestAFileSystemThatFillsInTheMeantimeIsSeen(t *testing.T) {
	var looked int
	w := newWorld(t, func(c *images.Config) {
		c.FreeSpace = func(string) (uint64, error) {
			if looked++; looked > 2 {
				return 1000, nil
			}
			return 1 << 40, nil
		}
	})
	source := w.serve(nil, answer{endless: true})
	source.Size = 0
	_, err := w.store.Fetch(t.Context(), source)
	expectError(t, err, images.ErrNoSpace)
	w.expectFiles(".lock")
}

func TestWhatTheFileSystemSaysIsTold(t *testing.T) {
	w := newWorld(t, func(c *images.Config) {
		c.FreeSpace = func(string) (uint64, error) { return 0, errors.New("who knows") }
	})
	_, err := w.store.Fetch(t.Context(), w.serve(rawImage(1, 4*kib)))
	expectError(t, err, nil, "who knows", w.dir)
}

func TestDownloadsThatWereGivenUpAreRemoved(t *testing.T) {
	w, data := newWorld(t), rawImage(1, 4*kib)
	old, young := w.part([]byte("old")), w.part([]byte("young"))
	for path, age := range map[string]time.Duration{old: 25 * time.Hour, young: 23 * time.Hour, w.part(data): 1000 * time.Hour} {
		write(t, path, data[:1000])
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	source := w.serve(data)
	if _, err := w.store.Fetch(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	w.expectFiles(filepath.Base(young), ".lock", "base-"+sumOf(data)+".img")
	if got := w.server.ranges(); !slices.Equal(got, []string{"1000-"}) {
		t.Errorf("asked for %q", got)
	}
}

func TestFilesOfThisMachine(t *testing.T) {
	data := rawImage(1, 300*kib)
	folder := t.TempDir()
	path := write(t, filepath.Join(folder, "an image.img"), data)
	if err := syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		url  string
		size uint64
		kind error
		says string
	}{
		{url: "file://" + folder + "/an%20image.img"},
		{url: "file://localhost" + folder + "/an%20image.img", size: 300 * kib},
		{url: "file://" + folder + "/an%20image.img", size: 1, kind: errors.NotValid, says: "307200"},
		{url: "file://" + folder + "/none", kind: errors.NotFound, says: "/none"},
		{url: "file://" + folder, kind: errors.NotValid, says: "not a file"},
		{url: "file://" + folder + "/fifo", kind: errors.NotValid, says: "not a file"},
	} {
		w := newWorld(t)
		source := images.Source{URL: test.url, SHA256: sumOf(data), Size: test.size}
		if test.kind == nil {
			write(t, w.part(data), []byte("what an earlier process left"))
			w.expectFetched(source, data)
			continue
		}
		_, err := w.store.Fetch(t.Context(), source)
		expectError(t, err, test.kind, test.says)
		w.expectFiles(".lock")
	}

	w := newWorld(t)
	_, err := w.store.Fetch(t.Context(), images.Source{URL: "file://" + path, SHA256: sumOf(nil)})
	expectError(t, err, errors.NotValid, sumOf(nil), sumOf(data))
	w.expectFiles(".lock")

	w = newWorld(t)
	source := images.Source{URL: "file://" + path, SHA256: sumOf(data)}
	w.expectFetched(source, data)
	write(t, path, []byte("another one by now"))
	w.expectFetched(source, data)
}
