package batch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
)

// refuse answers as a server that fails a whole call because of one item.
func refuse(bad ...string) func(context.Context, []string) ([]Result[string], error) {
	return func(_ context.Context, in []string) ([]Result[string], error) {
		for _, s := range in {
			if slices.Contains(bad, s) {
				return nil, errors.BadRequestf("one of the names")
			}
		}
		return upper(in), nil
	}
}

func splitBadRequests(c *Config[string, string]) {
	c.Splits = func(err error) bool { return errors.Is(err, errors.BadRequest) }
}

func TestSplittingFindsOneBadAmong16(t *testing.T) {
	const names = "abcdefghijklmnop"
	for _, bad := range strings.Split(names, "") {
		t.Run(bad, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				s.answer = refuse(bad)
				s.do("0").cancel() // under way while the 16 gather
				for _, p := range s.dos(strings.Split(names, "")...) {
					if p.in == bad {
						p.wantErr(errors.BadRequest, "one of the names")
					} else {
						p.wantOK()
					}
				}
				// One for "0", one for all, then two for each halving.
				if got, want := len(s.batches), 1+1+2*4; got != want {
					t.Fatalf("%d calls, want %d", got, want)
				}
			}, splitBadRequests)
		})
	}
}

func TestSplittingFindsSeveralBadOnes(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = refuse("b", "e")
		all := s.dos("a", "b", "c", "d", "e", "f")
		for _, p := range all {
			if p.in == "b" || p.in == "e" {
				p.wantErr(errors.BadRequest, "")
			} else {
				p.wantOK()
			}
		}
		s.want(t, "a", "b c d e f", "b c", "b", "c", "d e f", "d", "e f", "e", "f")
	}, splitBadRequests)
}

func TestGoodHalvesReturnBeforeTheSplittingEnds(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = refuse("e")
		all := s.dos("a", "b", "c", "d", "e")
		all[2].wantOK()
		all[4].wantDone(false)
		all[4].wantErr(errors.BadRequest, "")
	}, splitBadRequests)
}

func TestOnlyTheErrorsThatSplitAreSplit(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []func(*Config[string, string])
	}{
		{"nil never splits", nil},
		{"not this one", []func(*Config[string, string]){func(c *Config[string, string]) {
			c.Splits = func(err error) bool { return errors.Is(err, errors.NotFound) }
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				s.answer = refuse("c")
				all := s.dos("a", "b", "c", "d")
				all[0].wantOK()
				for _, p := range all[1:] {
					p.wantErr(errors.BadRequest, "")
				}
				s.want(t, "a", "b c d")
			}, tc.options...)
		})
	}
}

func TestALoneItemIsNotSplit(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = refuse("a")
		s.do("a").wantErr(errors.BadRequest, "")
		s.want(t, "a")
	}, splitBadRequests)
}

func TestAnItemWhoseCallerLeftIsNotSentAgain(t *testing.T) {
	for _, tc := range []struct {
		leaver  string
		batches []string
	}{
		{"b", []string{"b c d e", "c", "d e", "d", "e"}}, // the leader itself
		{"c", []string{"b c d e", "b", "d e", "d", "e"}},
		{"d", []string{"b c d e", "b c", "e"}},
	} {
		t.Run(tc.leaver, func(t *testing.T) {
			tell(t, func(t *testing.T, s *story) {
				s.answer = refuse("e")
				all := s.dos("a", "b", "c", "d", "e")
				all[0].wantOK()
				time.Sleep(latency / 2) // "b c d e" is under way
				for _, p := range all[1:] {
					if p.in == tc.leaver {
						p.cancel()
						p.wantErr(context.Canceled, "")
					}
				}
				all[4].wantErr(errors.BadRequest, "")
				synctest.Wait()
				s.want(t, append([]string{"a"}, tc.batches...)...)
			}, splitBadRequests)
		})
	}
}

func TestTheOwnersEndStopsTheSplitting(t *testing.T) {
	tell(t, func(t *testing.T, s *story) {
		s.answer = refuse("e")
		all := s.dos("a", "b", "c", "d", "e")
		all[0].wantOK()
		time.Sleep(latency + latency/2) // "b c" is under way
		s.cancel()
		for _, p := range all[1:] {
			p.wantDone(true)
			p.wantErr(context.Canceled, "")
		}
		s.want(t, "a", "b c d e", "b c")
	}, splitBadRequests)
}
