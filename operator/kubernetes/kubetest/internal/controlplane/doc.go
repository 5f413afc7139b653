// Package controlplane starts and stops a Kubernetes control plane on this machine:
// etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes,
// and with them, when asked for, the fake node of package fakenode.
//
// # State
//
// Everything that a control plane writes is under one folder, its keys, tokens and
// logs too. The folder says with which process ids and ports it runs, so that
// another process can find it ([Open]), and stop it ([Stop]) however its starter
// ended. Nothing is kept from one start to the next: a control plane begins empty,
// and its folder goes when it is stopped.
//
// # Life cycle
//
// A detached control plane outlives who started it. Any other is killed by the
// kernel when its starter dies, whatever it died of.
//
// # Security
//
// It listens on one address, the loopback one by default. The tokens are random and
// only their owner can read them, but etcd takes anyone who can reach the loopback
// interface. It is for tests.
package controlplane
