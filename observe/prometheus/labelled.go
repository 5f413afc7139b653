package prometheus

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// MaxLabelled is how many applications, and how many containers, have series of
// their own with [Config].ApplicationLabels: those that have been unsettled for
// the longest.
const MaxLabelled = 100

// labelled is an application or container that is not settled.
type labelled struct {
	name, kind, outcome string
	attempts            int
	since               time.Time
}

// worst returns the first of those that have been unsettled the longest, each
// name once, and how many more there are.
func worst(all []labelled) (shown []labelled, omitted int) {
	slices.SortFunc(all, func(a, b labelled) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.name, b.name))
	})
	seen := make(map[string]bool, len(all))
	for _, l := range all {
		switch {
		case seen[l.name]:
			// Another model's, on the same Metrics: two series of one name
			// would spoil the whole collection.
			omitted++
		case len(shown) == MaxLabelled:
			omitted++
		default:
			seen[l.name] = true
			shown = append(shown, l)
		}
	}
	return shown, omitted
}

// listed returns what list does, or nothing if that panics.
func listed[T any](complain func(why string), list func() []T) (all []T) {
	defer func() {
		if r := recover(); r != nil {
			complain(fmt.Sprint(r))
			all = nil
		}
	}()
	return list()
}

// outcomeLabel is the label of an outcome; one that is not there yet is none.
func outcomeLabel[T ~string](known []T, outcome T) string {
	switch {
	case outcome == "":
		return "none"
	case slices.Contains(known, outcome):
		return string(outcome)
	}
	return other
}
