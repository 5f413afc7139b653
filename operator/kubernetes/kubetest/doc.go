// Package kubetest gives tests a Kubernetes cluster: a namespace of their own on a
// shared one, or a whole control plane of their own, and what it takes to watch, wait
// and disturb.
//
// # Which cluster
//
// [Need] returns the cluster of the environment's KUBECONFIG. Without one it is the
// control plane of this repository's test bed (`make testbed`), on whose fake node
// pods are Running but execute nothing. With neither, the test is skipped and says
// what is missing, unless SUTLER_REQUIRE, a list with commas, has "kubernetes": then
// it fails.
//
// [Private] starts a control plane for one test, which may stop its API server. It
// takes five seconds and 600 MB, so it is for what cannot be had otherwise.
//
// [RealNode] returns the test bed's cluster with a real node, for tests that run in
// that node's network: `testbed/in-node go test ./...`. What SUTLER_REQUIRE calls it
// is "kubernetes-node".
//
// # Disturbance
//
// A [Recorder] sits between a client and the cluster, notes every request, and fails,
// delays or loses those that a test chooses. [Cluster.Behave] has pods misbehave on
// the fake node.
//
// # Life cycle
//
// What a test is given is taken away when it ends. A namespace that does not go fails
// the test, with what Kubernetes says is left in it.
//
// # Concurrency
//
// Tests may run in parallel. A [Cluster] and a [Recorder] are safe for concurrent use;
// a [ControlPlane] is stopped and started by one goroutine at a time.
package kubetest
