package dashboard

import "fmt"

// panel is one whose place is not known yet.
type panel struct {
	Panel
	width, height int
}

func q(expr, legend string) Target { return Target{Expr: expr, Legend: legend} }

// age is for how long something has been so, by a timestamp that is 0 when it is
// not: then it is 0, too.
func age(aggregate, timestamp string) string {
	return fmt.Sprintf("%s((time() - %s{$F}) * (%s{$F} > bool 0))", aggregate, timestamp, timestamp)
}

// quantile is one of a histogram, by a label if one is given.
func quantile(of, by, histogram string) string {
	labels := "le"
	if by != "" {
		labels += ", " + by
	}
	return fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket{$F}[$__rate_interval])))", of, labels, histogram)
}

// mean is that of a histogram, over a moment or, for what is rare, an hour.
func mean(by, histogram string) string { return meanOver("$__rate_interval", by, histogram) }

func longMean(by, histogram string) string { return meanOver("1h", by, histogram) }

func meanOver(interval, by, histogram string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s_sum{$F}[%s])) / (sum by (%s) (rate(%s_count{$F}[%s])) > 0)",
		by, histogram, interval, by, histogram, interval)
}

// Colours of single values.
const (
	green  = "green"
	orange = "orange"
	red    = "red"
	blue   = "blue"
)

func plain() Defaults { return thresholds(Step{Color: blue}) }

// badAbove is orange from one value on, and red from another.
func badAbove(bad, worse float64) Defaults {
	return thresholds(Step{Color: green}, Step{Color: orange, Value: &bad}, Step{Color: red, Value: &worse})
}

// goodAbove is red below a value.
func goodAbove(good float64) Defaults {
	return thresholds(Step{Color: red}, Step{Color: green, Value: &good})
}

func thresholds(steps ...Step) Defaults {
	return Defaults{Color: Color{Mode: "thresholds"}, Thresholds: &Thresholds{Mode: "absolute", Steps: steps}}
}

// mapped shows 0 and 1 as texts.
func mapped(d Defaults, zero, one string) Defaults {
	d.Mappings = []Mapping{{Type: "value", Options: map[string]Result{
		"0": {Text: zero}, "1": {Text: one, Index: 1},
	}}}
	return d
}

// stat is one value.
func stat(title, unit, description string, d Defaults, targets ...Target) panel {
	d.Unit = unit
	if unit == "percentunit" {
		decimals := 0
		d.Decimals = &decimals
	}
	return panel{width: 4, height: 4, Panel: Panel{
		Type: "stat", Title: title, Description: description, Targets: targets,
		Field: &FieldConfig{Defaults: d, Overrides: []Override{}},
		Options: &Options{
			ColorMode: "value", GraphMode: "none",
			ReduceOptions: &ReduceOptions{Calcs: []string{"lastNotNull"}},
		},
	}}
}

// lines are time series.
func lines(title string, width int, unit, description string, targets ...Target) panel {
	return chart(title, width, unit, description, &Custom{LineWidth: 1, ShowPoints: "never"}, targets)
}

// coloured gives states and outcomes the colours that they have everywhere.
func coloured(p panel) panel {
	for _, c := range []struct{ name, colour string }{
		{"settled", "#56a64b"}, {"failed", "#e02f44"}, {"stuck", "#8f3bb8"}, {"error", "#7a1420"},
		{"given up", "#7a1420"}, {"permanent", "#c15c17"}, {"panicked", "#ff0080"}, {"waiting", "#f2cc0c"},
		{"running", "#3274d9"}, {"queued", "#8ab8ff"}, {"forgotten", "#808a90"},
	} {
		p.Field.Overrides = append(p.Field.Overrides, Override{
			Matcher:    Matcher{ID: "byName", Options: c.name},
			Properties: []Property{{ID: "color", Value: Color{Mode: "fixed", Fixed: c.colour}}},
		})
	}
	return p
}

// stacked are time series that add up.
func stacked(title string, width int, unit, description string, targets ...Target) panel {
	return chart(title, width, unit, description, &Custom{
		FillOpacity: 50, LineWidth: 1, ShowPoints: "never", Stacking: &Stacking{Mode: "normal", Group: "A"},
	}, targets)
}

func chart(title string, width int, unit, description string, custom *Custom, targets []Target) panel {
	return panel{width: width, height: 8, Panel: Panel{
		Type: "timeseries", Title: title, Description: description, Targets: targets,
		Field: &FieldConfig{
			Defaults:  Defaults{Unit: unit, Color: Color{Mode: "palette-classic"}, Custom: custom},
			Overrides: []Override{},
		},
		Options: &Options{
			Legend:  &Legend{DisplayMode: "list", Placement: "bottom", ShowLegend: true, Calcs: []string{}},
			Tooltip: &Tooltip{Mode: "multi", Sort: "desc"},
		},
	}}
}

// timeline shows when each series was there.
func timeline(title string, width int, description string, targets ...Target) panel {
	merge := true
	return panel{width: width, height: 8, Panel: Panel{
		Type: "state-timeline", Title: title, Description: description, Targets: targets,
		Field: &FieldConfig{
			Defaults:  Defaults{Color: Color{Mode: "palette-classic"}, Custom: &Custom{FillOpacity: 70}},
			Overrides: []Override{},
		},
		Options: &Options{
			Legend:  &Legend{DisplayMode: "list", Placement: "bottom", Calcs: []string{}},
			Tooltip: &Tooltip{Mode: "single", Sort: "none"}, ShowValue: "never", MergeValues: &merge,
		},
	}}
}
