package kubernetes

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// Rules are the rights that a [Manager] needs in its namespace. What operators may
// do themselves is part of it: nobody can give what he has not.
func Rules() []rbacv1.PolicyRule {
	rule := func(group string, verbs []string, kinds ...kind) rbacv1.PolicyRule {
		r := rbacv1.PolicyRule{APIGroups: []string{group}, Verbs: verbs}
		for _, k := range kinds {
			r.Resources = append(r.Resources, k.resource())
		}
		return r
	}
	keep := []string{"get", "list", "watch", "create", "patch", "delete"}
	return append([]rbacv1.PolicyRule{
		rule("", keep, serviceAccounts, secrets, services),
		rule(rbacv1.GroupName, keep, roles, roleBindings),
		rule("apps", keep, statefulSets),
		{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"list", "delete"}},
		rule("", []string{"list", "watch", "delete"}, pods),
		rule("", []string{"get", "list", "watch", "delete"}, configMaps),
		rule("", []string{"get", "list", "watch", "patch", "delete"}, claims),
		// Optional: why a set has no pod.
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
	}, operatorRules()...)
}

// ClusterRules are rights beyond the namespace that a [Manager] does without when it
// has to: to look whether a storage class is there before a volume is claimed.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: []string{"get"}},
	}
}
