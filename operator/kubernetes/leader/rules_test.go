package leader_test

import (
	"slices"
	"testing"

	"github.com/sutler-dev/sutler/operator/kubernetes/leader"
)

func TestRulesAllowOneLeaseAndNoMore(t *testing.T) {
	rules := leader.Rules("mine")
	if len(rules) != 2 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, rule := range rules {
		if !slices.Equal(rule.APIGroups, []string{"coordination.k8s.io"}) || !slices.Equal(rule.Resources, []string{"leases"}) {
			t.Errorf("rule %v", rule)
		}
	}
	if named := rules[0]; !slices.Equal(named.ResourceNames, []string{"mine"}) || !slices.Equal(named.Verbs, []string{"get", "update"}) {
		t.Errorf("rule %v", named)
	}
	if free := rules[1]; len(free.ResourceNames) != 0 || !slices.Equal(free.Verbs, []string{"create"}) {
		t.Errorf("rule %v", free)
	}
}
