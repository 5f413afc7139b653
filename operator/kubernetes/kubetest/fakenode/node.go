package fakenode

import (
	"context"
	"time"

	"github.com/juju/errors"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How often the node says that it is alive, and for how long that holds.
const (
	renewEvery    = 10 * time.Second
	leaseDuration = 40 * time.Second
)

// A node keeps the Node object and its Lease.
type node struct{ Config }

func newNode(config Config) *node { return &node{config} }

func (n *node) run(ctx context.Context) {
	registered := false
	for {
		var err error
		if !registered {
			err = n.register(ctx)
			registered = err == nil
		}
		if err == nil {
			err = n.renew(ctx)
		}
		wait := renewEvery
		if err != nil {
			n.Logger.Info("not renewed, later again", "error", err)
			wait = 200 * time.Millisecond
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// register makes the Node, or takes over what an earlier one of the name left.
func (n *node) register(ctx context.Context) error {
	nodes := n.Client.CoreV1().Nodes()
	want := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name,
		Labels: map[string]string{
			NodeLabel:              "true",
			corev1.LabelHostname:   n.Name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		},
	}}
	got, err := nodes.Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		got, err = nodes.Get(ctx, n.Name, metav1.GetOptions{})
	}
	if err != nil {
		return errors.Annotate(err, "making the node")
	}
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000000"),
		corev1.ResourceMemory:           resource.MustParse("1Pi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Pi"),
		corev1.ResourcePods:             resource.MustParse("1000000"),
	}
	got.Status.Capacity, got.Status.Allocatable = room, room
	got.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}, {Type: corev1.NodeHostName, Address: n.Name}}
	got.Status.NodeInfo.OperatingSystem, got.Status.NodeInfo.Architecture = "linux", "amd64"
	got.Status.NodeInfo.KubeletVersion = "v0.0.0-fake"
	got.Status.Conditions = nil
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady:          corev1.ConditionTrue,
		corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure:   corev1.ConditionFalse,
		corev1.NodePIDPressure:    corev1.ConditionFalse,
	} {
		got.Status.Conditions = append(got.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "FakeNode", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	_, err = nodes.UpdateStatus(ctx, got, metav1.UpdateOptions{})
	return errors.Annotate(err, "saying that the node is ready")
}

// renew makes or renews the Lease by which the node is held to be alive.
func (n *node) renew(ctx context.Context) error {
	leases := n.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{
		HolderIdentity:       new(n.Name),
		LeaseDurationSeconds: new(int32(leaseDuration.Seconds())),
		RenewTime:            &now,
	}
	lease, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: spec}, metav1.CreateOptions{})
		return errors.Annotate(err, "making the lease")
	}
	if err != nil {
		return errors.Annotate(err, "reading the lease")
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return errors.Annotate(err, "renewing the lease")
}
