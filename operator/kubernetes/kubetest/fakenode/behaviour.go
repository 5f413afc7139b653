package fakenode

import (
	"encoding/json"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names that tests use.
const (
	// BehaviourAnnotation is the pod annotation with a [Behaviour].
	BehaviourAnnotation = "testbed.sutler.dev/behaviour"
	// BehaviourConfigMap is the name of the ConfigMap with the behaviour of a
	// namespace's pods, by name; EveryPod stands there for all that have no entry.
	BehaviourConfigMap = "testbed.sutler.dev"
	EveryPod           = "_all"
	// FilesAnnotation is the pod annotation with what its containers found at
	// which path when they started.
	FilesAnnotation = "testbed.sutler.dev/files"
	// NodeLabel is on the fake node, with the value "true".
	NodeLabel = "testbed.sutler.dev/fake"
	// Provisioner is that of storage classes that the fake node serves.
	Provisioner = "testbed.sutler.dev/fake"
)

// Behaviour is how a pod misbehaves. The zero value does not.
type Behaviour struct {
	// Container is whose PullError, Crash or Exit it is; the pod's first, after
	// its init containers, by default. It may be an init container.
	Container string `json:"container,omitempty"`
	// StartAfter is how long the containers take to start.
	StartAfter metav1.Duration `json:"startAfter,omitzero"`
	// PullError is why the image cannot be pulled. It does nothing to a
	// container that has been started.
	PullError string `json:"pullError,omitempty"`
	// Crash is what the container says each time that it ends. It is waiting
	// to be started again.
	Crash string `json:"crash,omitempty"`
	// Exit is what the container has said when it ended, just now: it has not
	// been started again.
	Exit string `json:"exit,omitempty"`
	// NeverReady is a pod that runs but does not become ready, or is so no more.
	NeverReady bool `json:"neverReady,omitempty"`
	// Stuck is a pod that does not go when it is deleted.
	Stuck bool `json:"stuck,omitempty"`
}

// String returns it as it stands in an annotation or a ConfigMap.
func (b Behaviour) String() string {
	data, err := json.Marshal(b)
	if err != nil {
		// Strings, booleans and a duration.
		return err.Error()
	}
	return string(data)
}

// behaviour returns how the pod behaves, by its annotation or else by the
// namespace's ConfigMap, which may be nil. It is an errors.NotValid when that cannot be
// read.
func behaviour(pod *corev1.Pod, config *corev1.ConfigMap) (Behaviour, error) {
	text, where := pod.Annotations[BehaviourAnnotation], "annotation "+BehaviourAnnotation
	if text == "" && config != nil {
		where = "ConfigMap " + config.Name
		if text = config.Data[pod.Name]; text == "" {
			text = config.Data[EveryPod]
		}
	}
	var b Behaviour
	if text == "" {
		return b, nil
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return b, errors.NewNotValid(err, where)
	}
	return b, nil
}
