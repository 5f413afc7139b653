package leader

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules returns the rights that an agent needs in the Lease's namespace to stand
// for election on the Lease of that name. A right to create cannot be limited to
// a name; where somebody else makes the Lease, the second rule may be left out.
func Rules(name string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups:     []string{coordinationv1.GroupName},
		Resources:     []string{"leases"},
		ResourceNames: []string{name},
		Verbs:         []string{"get", "update"},
	}, {
		APIGroups: []string{coordinationv1.GroupName},
		Resources: []string{"leases"},
		Verbs:     []string{"create"},
	}}
}
