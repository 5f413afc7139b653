package bench

import (
	"testing"

	"github.com/sutler-dev/sutler/bench/contenders"
)

// each runs a benchmark of each contender.
func each(b *testing.B, f func(b *testing.B, c contenders.Contender)) {
	for _, c := range contenders.All() {
		b.Run(c.Name(), func(b *testing.B) { f(b, c) })
	}
}

// 1,000 applications, 50 ms a call, in virtual time.
func BenchmarkSettle(b *testing.B) {
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			b.ReportMetric(settle(b, c, 1000), "virtual-s")
		}
	})
}

// A healthy application beside 16 whose calls hang, in virtual time.
func BenchmarkBesideHanging(b *testing.B) {
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			took := besideHanging(b, c, 16, 5)
			b.ReportMetric(median(took), "virtual-s/median")
			b.ReportMetric(took[len(took)-1], "virtual-s/worst")
		}
	})
}

// A healthy application beside 16 whose operators terminate, in virtual time.
func BenchmarkBesideTerminating(b *testing.B) {
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			b.ReportMetric(besideTerminating(b, c, 16), "virtual-s")
		}
	})
}

// One operation is a pass over each of 500 settled applications.
func BenchmarkPass(b *testing.B) {
	s := newSettled(b, 500, 0)
	each(b, func(b *testing.B, c contenders.Contender) {
		got := pass(b, c, s, b.N)
		b.ReportMetric(got.cpu/1e3, "cpu-us/pass")
		b.ReportMetric(got.allocs, "allocs/pass")
	})
}

// 1,000 settled applications.
func BenchmarkMemory(b *testing.B) {
	s := newSettled(b, 1000, 0)
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			m := memory(b, c, s)
			b.ReportMetric(m.bytes/1000, "B/application")
			b.ReportMetric(m.goroutines, "goroutines")
		}
	})
}

// 10,000 events within ten seconds of virtual time over 200 applications.
func BenchmarkStorm(b *testing.B) {
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			passes, after := storm(b, c, 200, 10_000)
			b.ReportMetric(passes, "passes")
			b.ReportMetric(after, "virtual-s/after")
		}
	})
}

// 1,000 applications, of which some have calls under way.
func BenchmarkKill(b *testing.B) {
	s := newSettled(b, 1000, 0)
	each(b, func(b *testing.B, c contenders.Contender) {
		for b.Loop() {
			b.ReportMetric(kill(b, c, s, 1)*1e3, "ms")
		}
	})
}
