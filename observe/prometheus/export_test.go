package prometheus

// Family is what there is to know of all series of one name.
type Family struct {
	Name, Kind, Help string
	Labels           []string
}

// Families are all that a Metrics has, for tests.
func (m *Metrics) Families() []Family {
	var out []Family
	for _, f := range m.families.all {
		out = append(out, Family{Name: f.name, Kind: f.kind, Help: f.help, Labels: f.labels})
	}
	return out
}

// LabelNames are those that no constant label may have.
func LabelNames() []string { return labelNames() }
