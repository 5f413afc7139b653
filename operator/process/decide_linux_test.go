package process

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	const timeout = 10 * time.Second
	now := time.Unix(1_000_000, 0)
	before := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name string
		s    situation
		want action
		wait time.Duration
	}{
		{"staged only", situation{}, rest, forever},
		{"staged, a process of before runs on", situation{alive: true}, rest, forever},
		{"to run", situation{ensured: true}, start, forever},
		{"to run, back-off over", situation{ensured: true, nextStart: now}, start, forever},
		{"to run, backing off", situation{ensured: true, nextStart: now.Add(time.Second)}, rest, time.Second},
		{"runs", situation{ensured: true, alive: true, current: true}, rest, forever},
		{"runs with an old configuration", situation{ensured: true, alive: true}, terminate, timeout},
		{"told to end just now", situation{ensured: true, alive: true, asked: now}, rest, timeout},
		{"told to end, configuration as it was again", situation{ensured: true, alive: true, current: true, asked: before(time.Second)}, rest, 9 * time.Second},
		{"told to end, deaf", situation{ensured: true, alive: true, asked: before(timeout)}, kill, timeout},
		{"told to end long ago", situation{ensured: true, alive: true, asked: before(time.Hour)}, kill, timeout},
		{"deleted, runs", situation{ensured: true, alive: true, current: true, deleting: true}, terminate, timeout},
		{"deleted while told to end", situation{ensured: true, alive: true, deleting: true, asked: before(time.Second)}, rest, 9 * time.Second},
		{"deleted, deaf", situation{alive: true, deleting: true, asked: before(timeout)}, kill, timeout},
		{"deleted, ended", situation{ensured: true, deleting: true}, remove, forever},
		{"deleted while backing off", situation{ensured: true, deleting: true, nextStart: now.Add(time.Hour)}, remove, forever},
		{"deleted, was only staged", situation{deleting: true}, remove, forever},
		{"agent ends, runs", situation{ensured: true, alive: true, current: true, halted: true}, terminate, timeout},
		{"agent ends, staged over a process", situation{alive: true, halted: true}, terminate, timeout},
		{"agent ends, ended", situation{ensured: true, halted: true}, rest, forever},
		{"agent ends, deleted, ended", situation{ensured: true, halted: true, deleting: true}, remove, forever},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.s.now, test.s.stopTimeout = now, timeout
			if got, wait := decide(test.s); got != test.want || wait != test.wait {
				t.Errorf("decide = %d, %v, want %d, %v", got, wait, test.want, test.wait)
			}
		})
	}
}

func TestDefaultBackoffDoublesFromASecondToAMinute(t *testing.T) {
	var delay time.Duration
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if delay = defaultBackoff(delay, i); delay != want*time.Second {
			t.Errorf("attempt %d: %v, want %v s", i, delay, int64(want))
		}
	}
}
