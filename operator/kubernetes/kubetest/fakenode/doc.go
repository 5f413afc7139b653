// Package fakenode is a node on which pods seem to run. A pod that the scheduler puts
// on it is Running and Ready a moment later, one that is deleted goes at once, and
// nothing is executed. What a test of controllers needs of a node is all there: the
// pod's status as a kubelet would report it, and what the pod's containers would
// have found in the files that they mount.
//
// # Behaviour
//
// Pods that misbehave are asked for with a [Behaviour], as JSON, either in the
// pod's annotation [BehaviourAnnotation], or in the ConfigMap [BehaviourConfigMap] of
// the pod's namespace under the pod's name, or there under [EveryPod]. The first
// of these that is there counts. It can be changed at any time: a pod that crashed
// recovers when its behaviour goes.
//
// # Files
//
// When a pod's containers start, the node reads the Secrets and ConfigMaps that they
// mount and notes in the annotation [FilesAnnotation] what is at which path, a
// JSON object. They are read again when a container starts again. A Secret that is
// missing, and not optional, keeps the pod waiting, as on a real node.
//
// # Storage
//
// A StorageClass whose provisioner is [Provisioner] has its claims bound, at once or
// to their first consumer as the class says, resized where it allows that, and its
// volumes deleted with the claim where it says so.
//
// # Concurrency
//
// [Run] owns all of its goroutines and returns when they have ended. It survives an
// API server that comes and goes. One cluster has one fake node of a name.
package fakenode
