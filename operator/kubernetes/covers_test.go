package kubernetes

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var seedFlag = flag.Uint64("seed", 0, "replays the random tests of this seed")

// seeded returns a source of random numbers, and says in the log of a test that fails
// how to have the same ones again.
func seeded(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with -args -seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, seed))
}

// tree parses JSON as the API's own types come: numbers are int64 where they are
// whole.
func tree(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return whole64(out)
}

func whole64(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole64(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole64(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
	}
	return v
}

func TestDifferenceIsWhereLiveDoesNotHaveWhatIsWanted(t *testing.T) {
	for _, test := range []struct{ name, live, wanted, want string }{
		{"equal", `{"a":1,"b":"x","c":true}`, `{"a":1,"b":"x","c":true}`, ""},
		{"nothing wanted", `{"a":1}`, `{}`, ""},
		{"nothing there", `{}`, `{"a":1}`, "a"},
		{"a default filled in", `{"a":1,"d":"Default"}`, `{"a":1}`, ""},
		{"another value", `{"a":1}`, `{"a":2}`, "a"},
		{"another type", `{"a":"1"}`, `{"a":1}`, "a"},
		{"zero is not nothing", `{}`, `{"a":0}`, "a"},
		{"false is not nothing", `{}`, `{"a":false}`, "a"},
		{"deep", `{"a":{"b":{"c":1}}}`, `{"a":{"b":{"c":2}}}`, "a.b.c"},
		{"the first of several, by name", `{}`, `{"b":1,"a":1}`, "a"},
		{"a map for a text", `{"a":"x"}`, `{"a":{"b":1}}`, "a"},
		{"an empty map for a text", `{"a":"x"}`, `{"a":{}}`, "a"},
		{"an empty map for nothing", `{}`, `{"a":{}}`, ""},
		{"an empty map for one", `{"a":{"b":1}}`, `{"a":{}}`, ""},

		{"another's label", `{"labels":{"mine":"1","theirs":"2"}}`, `{"labels":{"mine":"1"}}`, ""},
		{"more in a selector", `{"selector":{"mine":"1","theirs":"2"}}`, `{"selector":{"mine":"1"}}`, "selector"},
		{"more in a set's selector", `{"matchLabels":{"mine":"1","theirs":"2"}}`, `{"matchLabels":{"mine":"1"}}`, "matchLabels"},
		{"another one in a selector", `{"selector":{"theirs":"1"}}`, `{"selector":{"mine":"1"}}`, "selector.mine"},
		{"more requests", `{"requests":{"cpu":"1","memory":"1"}}`, `{"requests":{"cpu":"1"}}`, ""},

		{"a list in another order", `{"verbs":["a","b"]}`, `{"verbs":["b","a"]}`, "verbs"},
		{"more in a list", `{"verbs":["a","b"]}`, `{"verbs":["a"]}`, "verbs"},
		{"less in a list", `{"verbs":["a"]}`, `{"verbs":["a","b"]}`, "verbs"},
		{"a list for nothing", `{}`, `{"verbs":["a"]}`, "verbs"},
		{"an empty list for nothing", `{}`, `{"verbs":[]}`, ""},
		{"an empty list for one", `{"verbs":["a"]}`, `{"verbs":[]}`, "verbs"},
		{"a list for a text", `{"verbs":"a"}`, `{"verbs":["a"]}`, "verbs"},
		{"defaults in the elements of a list", `{"rules":[{"a":1,"d":2}]}`, `{"rules":[{"a":1}]}`, ""},

		{"a keyed list in another order", `{"env":[{"name":"a","value":"1"},{"name":"b","value":"2"}]}`, `{"env":[{"name":"b","value":"2"},{"name":"a","value":"1"}]}`, ""},
		{"another's element of a keyed list", `{"env":[{"name":"theirs"},{"name":"a","value":"1"}]}`, `{"env":[{"name":"a","value":"1"}]}`, ""},
		{"another value in a keyed list", `{"env":[{"name":"a","value":"2"}]}`, `{"env":[{"name":"a","value":"1"}]}`, "env"},
		{"an element of a keyed list is missing", `{"env":[]}`, `{"env":[{"name":"a","value":"1"}]}`, "env"},
		{"a keyed list is missing", `{}`, `{"env":[{"name":"a","value":"1"}]}`, "env"},
		{"defaults in a keyed list", `{"ports":[{"port":1,"nodePort":7}]}`, `{"ports":[{"port":1}]}`, ""},
		{"deep in a keyed list", `{"containers":[{"name":"a","env":[{"name":"x","value":"1"}]}]}`, `{"containers":[{"name":"a","env":[{"name":"x","value":"2"}]}]}`, "containers"},
		{"a file moved in a keyed list", `{"volumeMounts":[{"mountPath":"/a","name":"v"},{"mountPath":"/b","name":"v"}]}`, `{"volumeMounts":[{"mountPath":"/c","name":"v"}]}`, "volumeMounts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := difference(tree(t, test.live), tree(t, test.wanted)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// randomTree returns an object of the shapes that the API has, with names of lists
// and maps that are treated in each of the ways.
func randomTree(r *rand.Rand, depth int) any {
	names := []string{"a", "b", "spec", "labels", "selector", "requests", "verbs", "env", "containers", "ports"}
	switch kind := r.IntN(6); {
	case depth > 0 && kind < 2:
		out := make(map[string]any)
		for range r.IntN(4) {
			out[names[r.IntN(len(names))]] = randomTree(r, depth-1)
		}
		return out
	case depth > 0 && kind < 4:
		out := make([]any, r.IntN(4))
		for i := range out {
			out[i] = randomTree(r, depth-1)
		}
		return out
	case kind == 4:
		return int64(r.IntN(3))
	case kind == 5:
		return r.IntN(2) == 0
	}
	return string(rune('x' + r.IntN(3)))
}

// disturbed returns the tree as it may come from the API server: with more in it
// wherever others may put something, and keyed lists in another order.
func disturbed(r *rand.Rand, name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		for key, value := range v {
			out[key] = disturbed(r, key, value)
		}
		if !whole(name) {
			out["default"] = "filled in"
		}
		return out
	case []any:
		out := make([]any, 0, len(v)+1)
		for _, element := range v {
			out = append(out, disturbed(r, "", element))
		}
		if keyed(name) {
			out = append(out, map[string]any{"name": "theirs"})
			r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		return out
	}
	return v
}

func TestNothingDiffersFromItselfWhateverOthersAdd(t *testing.T) {
	r := seeded(t)
	for range 20000 {
		wanted := randomTree(r, 5)
		if at := difference(wanted, wanted); at != "" {
			t.Fatalf("%v differs from itself at %s", wanted, at)
		}
		if at := difference(disturbed(r, "", wanted), wanted); at != "" {
			t.Fatalf("%v differs at %s once others have added to it", wanted, at)
		}
	}
}

// changed returns the tree with one text, number or boolean changed, and whether it
// found one.
func changed(r *rand.Rand, v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = value
		}
		keys := sortedKeys(out)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for _, key := range keys {
			if value, ok := changed(r, out[key]); ok {
				out[key] = value
				return out, true
			}
		}
		return out, false
	case []any:
		out := append([]any(nil), v...)
		for _, i := range r.Perm(len(out)) {
			if value, ok := changed(r, out[i]); ok {
				out[i] = value
				return out, true
			}
		}
		return out, false
	case int64:
		return v + 100, true
	case string:
		return v + "!", true
	case bool:
		return "no boolean", true
	}
	return v, false
}

func TestEveryChangeOfAValueIsFound(t *testing.T) {
	r := seeded(t)
	found := 0
	for range 20000 {
		live := randomTree(r, 5)
		wanted, ok := changed(r, live)
		if !ok {
			continue
		}
		found++
		// At the root there is no name to tell.
		if at := difference(map[string]any{"spec": live}, map[string]any{"spec": wanted}); at == "" {
			t.Fatalf("of %v, %v differs nowhere", live, wanted)
		}
	}
	if found == 0 {
		t.Error("nothing was ever changed")
	}
}

func TestContentLeavesOutStatusAndWhatSaysNothing(t *testing.T) {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "mysql-operator"},
		Status:     appsv1.StatefulSetStatus{Replicas: 7},
	}
	content, err := contentOf(set)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := content["status"]; ok {
		t.Error("the status is in it")
	}
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "null") {
		t.Errorf("the API server would read a removal: %s", data)
	}
	if content["metadata"].(map[string]any)["name"] != "mysql-operator" {
		t.Errorf("%s", data)
	}
}

func TestDigestOfContentIgnoresOrderAndNothingElse(t *testing.T) {
	of := func(data map[string]string, labels map[string]string) string {
		content, err := contentOf(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		d, err := digestOf(content)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := of(map[string]string{"a": "1", "b": "2"}, map[string]string{"x": "y"})
	for range 20 {
		if again := of(map[string]string{"b": "2", "a": "1"}, map[string]string{"x": "y"}); again != first {
			t.Fatalf("got %s and %s", first, again)
		}
	}
	if of(map[string]string{"a": "1", "b": "3"}, map[string]string{"x": "y"}) == first ||
		of(map[string]string{"a": "1", "b": "2"}, map[string]string{"x": "z"}) == first {
		t.Error("a change does not show")
	}
}

func TestDigestTellsTextsApart(t *testing.T) {
	seen := make(map[string]bool)
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"1:a"}, {"a", "1:b"}} {
		d := digest(texts...)
		if seen[d] {
			t.Errorf("%q has the digest of another", texts)
		}
		seen[d] = true
	}
}
