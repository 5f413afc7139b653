package kubetest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/sutler-dev/sutler/operator/kubernetes/kubetest/fakenode"
)

// How long a namespace may take to go. A benchmark has thousands of objects in it.
const removal = 5 * time.Minute

// The label by which a namespace says what its pods may do.
const podSecurityLabel = "pod-security.kubernetes.io/enforce"

// Namespace returns the name of a new namespace, which enforces the restricted Pod
// Security level unless a change says otherwise. Service accounts are there. When
// the test ends it is deleted, and it is waited for: what does not go fails the test.
func (c *Cluster) Namespace(t testing.TB, changes ...func(*corev1.Namespace)) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: hint(t.Name()),
		Labels:       map[string]string{podSecurityLabel: "restricted"},
	}}
	for _, change := range changes {
		change(namespace)
	}
	ctx := t.Context()
	namespace, err := c.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	name := namespace.Name
	t.Cleanup(func() { c.removeNamespace(t, name) })
	// Without it no pod can be made, and controllers would wait before they
	// do it again.
	Eventually(t, "the default service account of "+name, func() error {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}

// hint returns the beginning of a namespace's name that tells of which test it is.
func hint(test string) string {
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(test), "-")
	const enough = 40
	if len(name) > enough {
		name = name[:enough]
	}
	return "t-" + strings.Trim(name, "-") + "-"
}

func (c *Cluster) removeNamespace(t testing.TB, name string) {
	t.Helper()
	// The test's own context has ended.
	ctx := context.Background()
	c.removePods(ctx, name)
	namespaces := c.Client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("deleting namespace %s: %v", name, err)
		return
	}
	err := poll(removal, func() error {
		namespace, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("it is still there: %s", strings.Join(remaining(namespace), "; "))
	})
	if err != nil {
		t.Errorf("waiting until namespace %s has gone: %v", name, err)
	}
}

// removePods deletes the pods without leaving them time to end. While any is still
// ending, the namespace controller waits for half of that time, whole seconds.
// Errors show when the namespace does not go.
func (c *Cluster) removePods(ctx context.Context, namespace string) {
	if c.fake {
		c.releasePods(ctx, namespace)
	}
	all := metav1.ListOptions{}
	c.Client.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, all)                              //nolint:errcheck // See above.
	c.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(c.podGrace())}, all) //nolint:errcheck // See above.
}

// podGrace returns how many seconds a pod has to end: none where nothing runs.
func (c *Cluster) podGrace() int64 {
	if c.fake {
		return 0
	}
	return 1
}

// releasePods lets go what a test has held by its behaviour.
func (c *Cluster) releasePods(ctx context.Context, namespace string) {
	c.Client.CoreV1().ConfigMaps(namespace).Delete(ctx, fakenode.BehaviourConfigMap, metav1.DeleteOptions{}) //nolint:errcheck // It may not be there.
	pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, pod := range pods.Items {
		if pod.Annotations[fakenode.BehaviourAnnotation] != "" {
			annotate(ctx, c.Client, namespace, pod.Name, fakenode.BehaviourAnnotation, nil) //nolint:errcheck // As for removePods.
		}
	}
}

// remaining returns what Kubernetes says of a namespace that does not go.
func remaining(namespace *corev1.Namespace) []string {
	said := []string{"phase " + string(namespace.Status.Phase)}
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			said = append(said, string(condition.Type)+": "+condition.Message)
		}
	}
	return said
}

// ServiceAccount returns the configuration for a client that is a new service
// account and has the rights of the rules, in that namespace only. The Role and the
// RoleBinding have the account's name, so a test can take the rights away.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string, rules ...rbacv1.PolicyRule) *rest.Config {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
	}
	accounts := c.Client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("making service account %s: %v", name, err)
	}
	if _, err := c.Client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatalf("making role %s: %v", name, err)
	}
	if _, err := c.Client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatalf("making role binding %s: %v", name, err)
	}
	const hours = 4
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(hours * 3600))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making a token for service account %s: %v", name, err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	waitForRights(t, config, namespace, rules)
	return config
}

// waitForRights returns when the API server has seen the rules: it looks at them in a
// cache of its own.
func waitForRights(t testing.TB, config *rest.Config, namespace string, rules []rbacv1.PolicyRule) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the service account's rights", func() error {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		for _, rule := range rules {
			if len(rule.NonResourceURLs) == 0 && !slices.ContainsFunc(review.Status.ResourceRules, func(has authorizationv1.ResourceRule) bool {
				return slices.Equal(has.Verbs, rule.Verbs) && slices.Equal(has.APIGroups, rule.APIGroups) &&
					slices.Equal(has.Resources, rule.Resources) && slices.Equal(has.ResourceNames, rule.ResourceNames)
			}) {
				return fmt.Errorf("%s of %s is not yet granted", rule.Verbs, rule.Resources)
			}
		}
		return nil
	})
}
