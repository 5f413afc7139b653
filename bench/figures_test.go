package bench

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sutler-dev/sutler/bench/chart"
	"github.com/sutler-dev/sutler/bench/contenders"
	"github.com/sutler-dev/sutler/bench/figures"
	"github.com/sutler-dev/sutler/bench/worlds"
)

var (
	output = flag.String("figures", "", "measure at full size, and write the figures to this file")
	only   = flag.String("only", "", "measure the figures whose IDs begin with this alone")
)

// sizes are how large the measurements are.
type sizes struct {
	settle, stuck, passes, memory, storm, kill []int
	healthy, total, stormApps, repeat          int
}

// small is for a test that only wants to see them run.
func small() sizes {
	return sizes{
		settle: []int{10, 40}, stuck: []int{0, 1, 3}, passes: []int{20}, memory: []int{50, 100}, storm: []int{100, 500}, kill: []int{10, 50},
		healthy: 2, total: 60, stormApps: 20, repeat: 1,
	}
}

func full() sizes {
	return sizes{
		settle: []int{100, 1000, 10_000}, stuck: []int{0, 1, 16, 100}, passes: []int{100, 1000, 10_000}, memory: []int{1000, 10_000, 100_000},
		storm: []int{1000, 10_000, 100_000}, kill: []int{100, 1000, 10_000},
		healthy: 20, total: 10_000, stormApps: 1000, repeat: 15,
	}
}

// run measures everything and puts it together.
type run struct {
	tb     testing.TB
	sizes  sizes
	worlds map[int]*worlds.Settled
	report *figures.Report
}

// settled returns a world whose calls take no time; such a one is made once.
func (r *run) settled(n int) *worlds.Settled {
	if r.worlds[n] == nil {
		clear(r.worlds) // a large one does not stay beside another
		runtime.GC()
		r.worlds[n] = newSettled(r.tb, n, 0)
	}
	return r.worlds[n]
}

// measure fills in figures that are measured together: values returns one for
// each of them.
func (r *run) measure(points []int, values func(c contenders.Contender, point int) []float64, figs ...figures.Figure) {
	r.measureOf(contenders.All(), points, values, figs...)
}

func (r *run) measureOf(cs []contenders.Contender, points []int, values func(c contenders.Contender, point int) []float64, figs ...figures.Figure) {
	if !slices.ContainsFunc(figs, func(f figures.Figure) bool { return strings.HasPrefix(f.ID, *only) }) {
		return
	}
	for i := range figs {
		for _, c := range cs {
			figs[i].Lines = append(figs[i].Lines, figures.Line{Name: c.Name()})
		}
	}
	for _, point := range points {
		for n, c := range cs {
			got := values(c, point)
			for i := range figs {
				figs[i].Lines[n].Values = append(figs[i].Lines[n].Values, got[i])
			}
			r.tb.Logf("%s at %d: %s: %v", figs[0].ID, point, c.Name(), got)
		}
		for i := range figs {
			figs[i].Points = append(figs[i].Points, float64(point))
		}
	}
	r.report.Figures = append(r.report.Figures, figs...)
}

// everything measures all there is.
func (r *run) everything() {
	z := r.sizes
	const applications = "applications"
	r.measure(z.settle, func(c contenders.Contender, n int) []float64 {
		return []float64{settle(r.tb, c, n)}
	}, figures.Figure{ID: "settle", Title: "Time for new applications to settle", X: applications, Y: "virtual seconds", Unit: "s", Exact: true})

	r.measure(z.stuck, func(c contenders.Contender, n int) []float64 {
		took := besideHanging(r.tb, c, n, z.healthy)
		return []float64{median(took), took[len(took)-1]}
	},
		figures.Figure{ID: "hanging-median", Title: "A healthy application beside hanging ones: half are ready within", X: "applications whose calls hang", Y: "virtual seconds", Unit: "s", Exact: true},
		figures.Figure{ID: "hanging-worst", Title: "A healthy application beside hanging ones: all are ready within", X: "applications whose calls hang", Y: "virtual seconds", Unit: "s", Exact: true})
	r.measure(z.stuck, func(c contenders.Contender, n int) []float64 {
		return []float64{startBesideHanging(r.tb, c, n)}
	}, figures.Figure{ID: "hanging-start", Title: "A healthy application that comes last beside hanging ones, all from the start", X: "applications whose calls hang", Y: "virtual seconds", Unit: "s", Exact: true})
	r.measure(z.stuck, func(c contenders.Contender, n int) []float64 {
		return []float64{besideTerminating(r.tb, c, n)}
	}, figures.Figure{ID: "terminating", Title: "A healthy application beside operators that take 3 minutes to terminate", X: "operators that terminate", Y: "virtual seconds", Unit: "s", Exact: true})

	r.passes()

	r.measure(z.memory, func(c contenders.Contender, n int) []float64 {
		m := memory(r.tb, c, r.settled(n))
		return []float64{m.bytes, m.bytes / float64(n), m.goroutines}
	},
		figures.Figure{ID: "memory", Title: "Live heap and stacks for settled applications", X: applications, Y: "bytes", Unit: "B"},
		figures.Figure{ID: "memory-each", Title: "Live heap and stacks for each settled application", X: applications, Y: "bytes", Unit: "B"},
		figures.Figure{ID: "goroutines", Title: "Goroutines for settled applications", X: applications, Y: "goroutines"})

	events := "events over " + chart.Thousands(float64(z.stormApps)) + " settled applications"
	r.measure(z.storm, func(c contenders.Contender, n int) []float64 {
		passes, after := storm(r.tb, c, z.stormApps, n)
		return []float64{passes, after}
	},
		figures.Figure{ID: "storm-passes", Title: "Passes that a storm of ten seconds causes", X: events, Y: "passes", Exact: true},
		figures.Figure{ID: "storm-after", Title: "How long a storm goes on after its last event", X: events, Y: "virtual seconds", Unit: "s", Exact: true})
	r.measure(z.storm, func(c contenders.Contender, n int) []float64 {
		total := stormCost(r.tb, c, r.settled(z.stormApps), n)
		return []float64{total.cpu, total.allocs}
	},
		figures.Figure{ID: "storm-cpu", Title: "CPU time that a storm takes where calls take no time", X: events, Y: "seconds of CPU", Unit: "s"},
		figures.Figure{ID: "storm-allocs", Title: "Allocations that a storm takes where calls take no time", X: events, Y: "allocations"})

	r.measure(z.kill, func(c contenders.Contender, n int) []float64 {
		return []float64{kill(r.tb, c, r.settled(n), z.repeat)}
	}, figures.Figure{ID: "kill", Title: "From Kill to Wait while calls are under way", X: applications, Y: "seconds", Unit: "s"})
	r.measure([]int{1}, func(c contenders.Contender, _ int) []float64 {
		return []float64{killDeaf(r.tb, c)}
	}, figures.Figure{ID: "kill-deaf", Title: "From Kill to Wait while a call does not heed its context for 20 s", X: applications, Y: "virtual seconds", Unit: "s", Exact: true})
}

// passes measures what a pass over a settled application costs, and beside the
// contenders what its two halves cost: the reconcile function that most of them share
// without what calls it, and a framework whose passes do nothing.
func (r *run) passes() {
	const x = "settled applications"
	cs := contenders.All()
	cs = append(cs, part{name: "the shared reconcile function, called directly"}, part{name: "controller-runtime, tuned, with a pass that does nothing"})
	r.measureOf(cs, r.sizes.passes, func(c contenders.Contender, n int) []float64 {
		s := r.settled(n)
		rounds := max(r.sizes.total/n, 1)
		var got cost
		switch {
		case c.Name() == cs[len(cs)-2].Name():
			got = direct(r.tb, s, rounds)
		case c.Name() == cs[len(cs)-1].Name():
			got = pass(r.tb, idle{contenders.ControllerRuntime{Tuned: true}, s}, s, rounds)
		default:
			got = pass(r.tb, c, s, rounds)
		}
		return []float64{got.cpu / 1e9, got.allocs, got.bytes}
	},
		figures.Figure{ID: "pass-cpu", Title: "CPU time of a pass over a settled application", X: x, Y: "seconds of CPU", Unit: "s"},
		figures.Figure{ID: "pass-allocs", Title: "Allocations of a pass over a settled application", X: x, Y: "allocations"},
		figures.Figure{ID: "pass-bytes", Title: "Bytes allocated in a pass over a settled application", X: x, Y: "bytes", Unit: "B"})
}

// part is a name in a table beside the contenders.
type part struct {
	contenders.Contender
	name string
}

func (p part) Name() string { return p.name }

// properties asks each contender for each property.
func (r *run) properties(t *testing.T) {
	for _, p := range properties() {
		held := figures.Property{Name: p.name, Holds: map[string]bool{}}
		for _, c := range contenders.All() {
			synctest.Test(t, func(t *testing.T) { held.Holds[c.Name()] = p.holds(t, c) == "" })
		}
		r.report.Properties = append(r.report.Properties, held)
	}
}

// setting is what was measured on.
func setting() []figures.Fact {
	return []figures.Fact{
		{Name: "processor", Value: fmt.Sprintf("%s, %d virtual cores", processor(), runtime.NumCPU())},
		{Name: "system", Value: runtime.GOOS + "/" + runtime.GOARCH},
		{Name: "Go", Value: strings.TrimPrefix(runtime.Version(), "go")},
	}
}

// processor is the model of the processor, where the system tells.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return "a processor"
}

// At a small size it shows that each measurement works; with -figures it is
// what cmd/compare runs.
func TestFigures(t *testing.T) {
	r := &run{tb: t, sizes: small(), worlds: map[int]*worlds.Settled{}, report: &figures.Report{Setting: setting()}}
	if *output != "" {
		r.sizes = full()
	}
	if *only == "" {
		r.properties(t)
	}
	r.everything()
	for _, f := range r.report.Figures {
		for _, line := range f.Lines {
			if len(line.Values) != len(f.Points) {
				t.Errorf("%s: %d values of %s at %d points", f.ID, len(line.Values), line.Name, len(f.Points))
			}
		}
	}
	if *output == "" || t.Failed() {
		return
	}
	if err := r.report.Write(*output); err != nil {
		t.Fatal(err)
	}
}
