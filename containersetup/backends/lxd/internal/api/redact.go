package api

import (
	"sort"
	"strconv"
	"strings"
)

// always is the length in bytes from which on a value is taken out wherever it
// stands. A shorter one may be a part of any word, and is taken out where it
// stands in quotes.
const always = 6

// redact puts, for every value of the configurations that occurs in a message,
// the key in its place. LXD likes to quote what it refuses.
func redact(message string, configs []map[string]string) string {
	if message == "" {
		return ""
	}
	type pair struct{ key, value string }
	var pairs []pair
	for _, config := range configs {
		for key, value := range config {
			if value = strings.TrimSpace(value); value != "" {
				pairs = append(pairs, pair{key, value})
			}
		}
	}
	// The longest first: one may be a part of another.
	sort.Slice(pairs, func(i, j int) bool {
		if a, b := len(pairs[i].value), len(pairs[j].value); a != b {
			return a > b
		}
		return pairs[i].key < pairs[j].key
	})
	var replacements []string
	for _, p := range pairs {
		place := "<" + p.key + ">"
		quoted := strconv.Quote(p.value)
		if len(p.value) >= always {
			replacements = append(replacements, p.value, place, quoted[1:len(quoted)-1], place)
			continue
		}
		replacements = append(replacements, quoted, place, "'"+p.value+"'", place, "`"+p.value+"`", place)
	}
	message = strings.NewReplacer(replacements...).Replace(message)
	// A YAML parser quotes the beginning of what it cannot read in back quotes.
	parts := strings.Split(message, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		fragment := strings.TrimSuffix(parts[i], "...")
		for _, p := range pairs {
			if fragment != "" && strings.Contains(p.value, fragment) {
				parts[i] = "<" + p.key + ">"
				break
			}
		}
	}
	return strings.Join(parts, "`")
}
