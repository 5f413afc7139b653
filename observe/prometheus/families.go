package prometheus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
)

// family is what there is to know of all series of one name.
type family struct {
	name, kind, help string
	labels           []string
	desc             *client.Desc
}

// families are all that one Metrics has. They are made before it is registered,
// and do not change.
type families struct {
	namespace string
	constant  map[string]string
	all       []family
	vectors   []client.Collector
}

func (f *families) add(kind, name, help string, labels []string) family {
	name = f.namespace + "_" + name
	made := family{
		name: name, kind: kind, help: help, labels: labels,
		desc: client.NewDesc(name, help, labels, f.constant),
	}
	f.all = append(f.all, made)
	return made
}

func (f *families) counter(name, help string, labels ...string) *client.CounterVec {
	made := f.add("counter", name, help, labels)
	vec := client.NewCounterVec(client.CounterOpts{Name: made.name, Help: help, ConstLabels: f.constant}, labels)
	f.vectors = append(f.vectors, vec)
	return vec
}

func (f *families) histogram(name, help string, buckets []float64, labels ...string) *client.HistogramVec {
	made := f.add("histogram", name, help, labels)
	vec := client.NewHistogramVec(client.HistogramOpts{
		Name: made.name, Help: help, ConstLabels: f.constant, Buckets: buckets,
	}, labels)
	f.vectors = append(f.vectors, vec)
	return vec
}

// gauge is computed at each collection.
func (f *families) gauge(name, help string, labels ...string) *client.Desc {
	return f.add("gauge", name, help, labels).desc
}

func (f *families) describe(out chan<- *client.Desc) {
	for _, family := range f.all {
		out <- family.desc
	}
}

// collect collects what is counted.
func (f *families) collect(out chan<- client.Metric) {
	for _, vec := range f.vectors {
		vec.Collect(out)
	}
}

// gauges is where the gauges of one collection go.
type gauges struct{ out chan<- client.Metric }

func (g gauges) set(desc *client.Desc, value float64, labels ...string) {
	m, err := client.NewConstMetric(desc, client.GaugeValue, value, labels...)
	if err != nil {
		m = client.NewInvalidMetric(desc, err)
	}
	g.out <- m
}

// count sets a gauge to a number of something.
func (g gauges) count(desc *client.Desc, n int, labels ...string) {
	g.set(desc, float64(n), labels...)
}

// at sets a gauge to a point in time; 0 stands for none.
func (g gauges) at(desc *client.Desc, t time.Time, labels ...string) {
	if t.IsZero() {
		g.set(desc, 0, labels...)
		return
	}
	// Not UnixNano: a certificate may end beyond what that can tell.
	g.set(desc, float64(t.Unix())+float64(t.Nanosecond())/1e9, labels...)
}

func (g gauges) flag(desc *client.Desc, yes bool, labels ...string) {
	value := 0.0
	if yes {
		value = 1
	}
	g.set(desc, value, labels...)
}

// passBuckets reach from a look at a settled application to several calls that
// each use their deadline up.
func passBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
}

// callBuckets reach to the deadline of a call.
func callBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
}

// waitBuckets reach to what somebody would be paged for.
func waitBuckets() []float64 {
	return []float64{.001, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900}
}

// longBuckets are for what may install packages or fetch images.
func longBuckets() []float64 {
	return []float64{.01, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600}
}

// sizeBuckets are of batches.
func sizeBuckets() []float64 {
	return []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}
}

// seconds is a duration to observe. A clock that was set back makes none that is
// negative.
func seconds(d time.Duration) float64 { return max(d, 0).Seconds() }

// other is the label of whatever does not fit into a bounded set.
const other = "other"

// children are the series of a family by a label of a closed set, all of them
// there from the start.
type children[T any] struct {
	known map[string]T
	other func() T
}

func newChildren[L ~string, T any](values []L, of func(label string) T) children[T] {
	c := children[T]{known: make(map[string]T, len(values)), other: func() T { return of(other) }}
	for _, value := range values {
		c.known[string(value)] = of(string(value))
	}
	return c
}

// single is for families with one label.
func single[T any](of func(labels ...string) T) func(string) T {
	return func(label string) T { return of(label) }
}

// of returns the series of a value, that of "other" if it is none of the set.
func (c children[T]) of(value string) T {
	if child, ok := c.known[value]; ok {
		return child
	}
	return c.other()
}

// bounded is a set of labels that come from outside.
type bounded struct {
	most int

	mu    sync.Mutex
	known map[string]bool
}

// maxLabel bounds a label that comes from outside.
const maxLabel = 64

// label returns the value for a label. Values beyond the bound are "other".
func (b *bounded) label(value string) string {
	if len(value) > maxLabel {
		value = value[:maxLabel]
	}
	value = strings.ToValidUTF8(value, "?")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[value] {
		return value
	}
	if len(b.known) >= b.most {
		value = other // known from then on, as one more
	}
	if b.known == nil {
		b.known = make(map[string]bool)
	}
	b.known[value] = true
	return value
}

// all returns the labels so far, in order.
func (b *bounded) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.known))
}

// earlier returns the earlier one; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watched is a worker that can be looked at.
type watched[S any] interface {
	comparable
	Status() S
}

// attached are the workers to look at.
type attached[W watched[S], S any] struct {
	mu      sync.Mutex
	workers []*entry[W]
}

type entry[W any] struct {
	worker W
	// complained says that it was logged.
	complained bool
}

// add attaches a worker until detach is called.
func (a *attached[W, S]) add(worker W) (detach func()) {
	added := &entry[W]{worker: worker}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workers = append(a.workers, added)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.workers = slices.DeleteFunc(a.workers, func(e *entry[W]) bool { return e == added })
	}
}

// each calls see with each worker and its status, one after the other, without a
// lock. It passes by a worker that panics, which it tells of once.
func (a *attached[W, S]) each(complain func(why string), see func(W, S)) {
	a.mu.Lock()
	workers := slices.Clone(a.workers)
	a.mu.Unlock()
	for _, e := range workers {
		status, panicked := statusOf[W, S](e.worker)
		if panicked == "" {
			see(e.worker, status)
			continue
		}
		a.mu.Lock()
		complained := e.complained
		e.complained = true
		a.mu.Unlock()
		if !complained {
			complain(panicked)
		}
	}
}

func statusOf[W watched[S], S any](worker W) (status S, panicked string) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Sprint(r)
		}
	}()
	return worker.Status(), ""
}
