package kubernetes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sutler-dev/sutler/facade"
)

func TestNamesAreThoseThatToolsInTheFieldKnow(t *testing.T) {
	n := namesOf("mysql")
	for got, want := range map[string]string{
		n.operator():     "mysql-operator",
		n.config():       "mysql-operator-config",
		n.pull():         "mysql-operator-pull",
		n.claimName():    "charm-mysql-operator-0",
		n.agentConfKey(): "mysql-agent.conf",
		infoKey:          "operator.yaml",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n.hashed() {
		t.Error("the name is said to be cut")
	}
}

// TestLongNamesAreCutAlwaysTheSameWay has names that operators in the field have: a
// change here would leave every one of them behind.
func TestLongNamesAreCutAlwaysTheSameWay(t *testing.T) {
	for app, want := range map[string]string{
		strings.Repeat("a", 43):                            strings.Repeat("a", 43),
		strings.Repeat("a", 44):                            strings.Repeat("a", 30) + "-405963362032",
		strings.Repeat("a", 29) + "-bbbbbbbbbbbbbb":        strings.Repeat("a", 29) + "-526926162026",
		"kubeflow-training-operator-with-a-very-long-name": "kubeflow-training-operator-wit-369362067625",
	} {
		if got := namesOf(app).short; got != want {
			t.Errorf("%s is %s, want %s", app, got, want)
		}
	}
}

// badNames returns what is wrong with an application's names, or "".
func badNames(app string) string {
	n := namesOf(app)
	if len(n.operator()) > maxStatefulSetName {
		return fmt.Sprintf("a set's name of %d bytes: its pods would be refused", len(n.operator()))
	}
	// The longest label of a pod: the set's revision.
	if revision := n.operator() + "-0123456789"; len(validation.IsValidLabelValue(revision)) > 0 {
		return "no revision label for " + n.operator()
	}
	for _, name := range []string{n.operator(), n.config(), n.pull(), n.claimName(), n.operator() + "-0"} {
		if bad := validation.IsDNS1123Label(name); len(bad) > 0 {
			return name + ": " + bad[0]
		}
	}
	if bad := validation.IsDNS1035Label(n.operator()); len(bad) > 0 { // a Service's
		return n.operator() + ": " + bad[0]
	}
	if bad := validation.IsValidLabelValue(n.short); len(bad) > 0 {
		return n.short + ": " + bad[0]
	}
	if bad := validation.IsConfigMapKey(n.agentConfKey()); len(bad) > 0 {
		return n.agentConfKey() + ": " + bad[0]
	}
	if n.hashed() && validName(n.short) == nil {
		return n.short + " may be an application, too"
	}
	return ""
}

func TestNamesOfEveryLengthFit(t *testing.T) {
	for _, group := range []string{"a", "a-", "a1b-", "ab1-", "abcdefghi-", "z9-"} {
		for size := 1; size <= facade.MaxApplicationName; size++ {
			app := strings.TrimRight(strings.Repeat(group, size)[:size], "-")
			if facade.ValidateApplicationName(app) != nil {
				continue
			}
			if bad := badNames(app); bad != "" {
				t.Errorf("%s: %s", app, bad)
			}
		}
	}
}

func TestNamesThatBeginAlikeStayApart(t *testing.T) {
	owner := make(map[string]string)
	begin := strings.Repeat("a", 60)
	for i := range 20000 {
		app := fmt.Sprintf("%s%da", begin, i)
		name := namesOf(app).operator()
		if other, ok := owner[name]; ok {
			t.Fatalf("%s and %s are both %s", app, other, name)
		}
		owner[name] = app
	}
}

// FuzzNames holds that an application's names fit, and that no two applications share
// one, nor an application what another one's was cut to.
func FuzzNames(f *testing.F) {
	long := strings.Repeat("long", 20)
	for _, pair := range [][2]string{
		{"mysql", "mysql-operator"}, {"a", "b"}, {long, long + "a"}, {long, namesOf(long).short}, {"a" + strings.Repeat("-a", 40), "a" + strings.Repeat("-a", 41)},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if facade.ValidateApplicationName(a) != nil || facade.ValidateApplicationName(b) != nil {
			return
		}
		if bad := badNames(a); bad != "" {
			t.Errorf("%s: %s", a, bad)
		}
		if a == b {
			return
		}
		x, y := namesOf(a), namesOf(b)
		for _, of := range []func(names) string{names.operator, names.claimName, names.agentConfKey} {
			if of(x) == of(y) {
				t.Errorf("%s and %s share %s", a, b, of(x))
			}
		}
		for _, secret := range []string{x.config(), x.pull()} {
			if secret == y.config() || secret == y.pull() {
				t.Errorf("%s and %s share the Secret %s", a, b, secret)
			}
		}
		// What is written on an object of one is not taken for the other's.
		obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: x.selector(), Annotations: map[string]string{}}}
		if x.hashed() {
			obj.Annotations[annotationApplication] = a
		}
		if got := application(obj); got != a {
			t.Errorf("an object of %s is taken for one of %q", a, got)
		}
	})
}

func TestObjectWhoseLabelsFitNoApplicationIsNobodys(t *testing.T) {
	long := strings.Repeat("long", 20)
	for name, obj := range map[string]*corev1.Pod{
		"no label":                  {},
		"no application's name":     {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelName: "Upper"}}},
		"cut, and the name is lost": {ObjectMeta: metav1.ObjectMeta{Labels: namesOf(long).selector()}},
		"cut, and another's name": {ObjectMeta: metav1.ObjectMeta{
			Labels: namesOf(long).selector(), Annotations: map[string]string{annotationApplication: long + "a"},
		}},
		"not cut, and another's name": {ObjectMeta: metav1.ObjectMeta{
			Labels: namesOf("mysql").selector(), Annotations: map[string]string{annotationApplication: "postgresql"},
		}},
	} {
		if got := application(obj); got != "" {
			t.Errorf("%s: taken for one of %s", name, got)
		}
	}
}
