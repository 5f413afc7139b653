package lxdfake

import (
	"context"
	"path"
)

type faultKind int

const (
	faultFail faultKind = iota
	faultFailOperation
	faultDrop
	faultLoseReply
	faultHang
	faultHangOperation
)

// fault is something that goes wrong with some requests.
type fault struct {
	kind            faultKind
	method, pattern string
	times           int // how often it is left; negative for always
	code            int
	text            string
	release         chan struct{} // of those that hang
}

// letGo ends a fault. The mutex is held.
func (x *fault) letGo() {
	if x.release != nil && x.times != 0 {
		close(x.release)
	}
	x.times = 0
}

func matches(method, pattern string, r Request) bool {
	if method != "" && method != r.Method {
		return false
	}
	ok, err := path.Match(pattern, r.Path)
	return ok && err == nil
}

func (f *Fake) add(x *fault) {
	f.t.Helper()
	if _, err := path.Match(x.pattern, ""); err != nil {
		f.t.Errorf("lxdfake: pattern %q: %v", x.pattern, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, x)
}

// take returns the first fault of one of the kinds for a request, and counts it.
// The mutex is held.
func (f *Fake) take(r Request, kinds ...faultKind) *fault {
	for _, x := range f.faults {
		for _, kind := range kinds {
			if x.kind == kind && x.times != 0 && matches(x.method, x.pattern, r) {
				if x.times > 0 {
					x.times--
				}
				return x
			}
		}
	}
	return nil
}

// Fail refuses requests with a code and a text, some times, or always if times is
// negative.
func (f *Fake) Fail(method, pattern string, code int, text string, times int) {
	f.t.Helper()
	f.add(&fault{kind: faultFail, method: method, pattern: pattern, code: code, text: text, times: times})
}

// FailOperation accepts requests and has their operations fail with a text, before
// they have done anything, some times, or always if times is negative.
func (f *Fake) FailOperation(method, pattern, text string, times int) {
	f.t.Helper()
	f.add(&fault{kind: faultFailOperation, method: method, pattern: pattern, text: text, times: times})
}

// Drop closes the connection of the next request without doing anything.
func (f *Fake) Drop(method, pattern string) {
	f.t.Helper()
	f.add(&fault{kind: faultDrop, method: method, pattern: pattern, times: 1})
}

// LoseReply does all that the next request asks for, its operation included, and
// closes the connection without an answer.
func (f *Fake) LoseReply(method, pattern string) {
	f.t.Helper()
	f.add(&fault{kind: faultLoseReply, method: method, pattern: pattern, times: 1})
}

// Hang holds requests until release is called, and does then what they ask for,
// unless whoever asked has left.
func (f *Fake) Hang(method, pattern string) (release func()) {
	f.t.Helper()
	return f.hang(faultHang, method, pattern)
}

// HangOperation accepts requests and has their operations go on until release is
// called. One that creates an instance has begun to: the instance is there.
func (f *Fake) HangOperation(method, pattern string) (release func()) {
	f.t.Helper()
	return f.hang(faultHangOperation, method, pattern)
}

func (f *Fake) hang(kind faultKind, method, pattern string) func() {
	f.t.Helper()
	x := &fault{kind: kind, method: method, pattern: pattern, times: -1, release: make(chan struct{})}
	f.add(x)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		x.letGo()
	}
}

// CrashAfter kills the daemon after n more requests that are not just questions:
// the last one is carried out, its operation included, and not answered. It stays
// away until [Fake.Restart].
func (f *Fake) CrashAfter(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crash = n
}

// ClearFaults takes back all faults, and lets go of what hangs.
func (f *Fake) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.faults {
		x.letGo()
	}
	f.faults, f.crash = nil, 0
}

// await waits for the release, and tells whether it came before the contexts ended.
func (x *fault) await(a, b context.Context) bool {
	select {
	case <-x.release:
		return true
	case <-a.Done():
	case <-b.Done():
	}
	return false
}
