package dashshot

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// Recording is what a registry exposed from time to time.
type Recording struct {
	// Labels are those of the target, as a scrape would add them.
	Labels map[string]string

	order    []string
	families map[string]*recorded
}

// recorded is one family with all its samples, a series each.
type recorded struct {
	kind, help string
	order      []string
	series     map[string][]string
}

// Add takes what was gathered at a time.
func (r *Recording) Add(at time.Time, families []*dto.MetricFamily) {
	if r.families == nil {
		r.families = make(map[string]*recorded)
	}
	for _, family := range families {
		name := family.GetName()
		known := r.families[name]
		if known == nil {
			known = &recorded{
				kind: strings.ToLower(family.GetType().String()), help: family.GetHelp(),
				series: make(map[string][]string),
			}
			r.families[name] = known
			r.order = append(r.order, name)
		}
		for _, m := range family.GetMetric() {
			r.metric(known, name, at, m)
		}
	}
}

func (r *Recording) metric(known *recorded, name string, at time.Time, m *dto.Metric) {
	switch {
	case m.GetHistogram() != nil:
		h := m.GetHistogram()
		infinite := false
		for _, b := range h.GetBucket() {
			infinite = infinite || math.IsInf(b.GetUpperBound(), 1)
			known.sample(r.labelled(name+"_bucket", m, format(b.GetUpperBound())), float64(b.GetCumulativeCount()), at)
		}
		if !infinite {
			known.sample(r.labelled(name+"_bucket", m, "+Inf"), float64(h.GetSampleCount()), at)
		}
		known.sample(r.labelled(name+"_count", m, ""), float64(h.GetSampleCount()), at)
		known.sample(r.labelled(name+"_sum", m, ""), h.GetSampleSum(), at)
	case m.GetCounter() != nil:
		known.sample(r.labelled(name, m, ""), m.GetCounter().GetValue(), at)
	default:
		known.sample(r.labelled(name, m, ""), m.GetGauge().GetValue(), at)
	}
}

func (k *recorded) sample(series string, value float64, at time.Time) {
	if _, ok := k.series[series]; !ok {
		k.order = append(k.order, series)
	}
	k.series[series] = append(k.series[series], fmt.Sprintf("%s %s %d.%03d", series, format(value), at.Unix(), at.Nanosecond()/1e6))
}

func (r *Recording) labelled(name string, m *dto.Metric, le string) string {
	var pairs []string
	for label, value := range r.Labels {
		pairs = append(pairs, label+"="+strconv.Quote(value))
	}
	for _, l := range m.GetLabel() {
		pairs = append(pairs, l.GetName()+"="+strconv.Quote(l.GetValue()))
	}
	if le != "" {
		pairs = append(pairs, `le="`+le+`"`)
	}
	// Map order makes a different text of the same series.
	slices.Sort(pairs)
	return name + "{" + strings.Join(pairs, ",") + "}"
}

func format(value float64) string {
	if math.IsInf(value, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// Write writes the recording as OpenMetrics, for promtool to make blocks of.
func (r *Recording) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, name := range r.order {
		family := r.families[name]
		base := name
		if family.kind == "counter" {
			base = strings.TrimSuffix(name, "_total")
		}
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", base, family.help, base, family.kind)
		for _, series := range family.order {
			for _, sample := range family.series[series] {
				fmt.Fprintln(out, sample)
			}
		}
	}
	fmt.Fprintln(out, "# EOF")
	return out.Flush()
}
