package fakenode

import (
	"context"
	"encoding/json"
	"time"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// How long a pod whose Secret is missing waits before it looks again.
const mountAgain = 300 * time.Millisecond

// pods runs the pods that are bound to the node.
type pods struct {
	Config
	*loop
	pods    listers.PodLister
	configs listers.ConfigMapLister
	// factories make the informers of the two.
	factories []informers.SharedInformerFactory
}

func newPods(config Config) (*pods, error) {
	filtered := func(selector fields.Selector) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(config.Client, 0,
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = selector.String() }),
			informers.WithTransform(trim))
	}
	ours := filtered(fields.OneTermEqualSelector("spec.nodeName", config.Name))
	behaviours := filtered(fields.OneTermEqualSelector("metadata.name", BehaviourConfigMap))
	p := &pods{
		Config:    config,
		pods:      ours.Core().V1().Pods().Lister(),
		configs:   behaviours.Core().V1().ConfigMaps().Lister(),
		factories: []informers.SharedInformerFactory{ours, behaviours},
	}
	p.loop = newLoop(config.Logger, p.sync)
	if err := onChange(ours.Core().V1().Pods().Informer(), p.queue.Add); err != nil {
		return nil, errors.Trace(err)
	}
	err := onChange(behaviours.Core().V1().ConfigMaps().Informer(), p.behaveAnew)
	return p, errors.Trace(err)
}

// onChange has a function called with the key of each object that is new, changed
// or gone.
func onChange(informer cache.SharedIndexInformer, do func(key string)) error {
	call := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			do(key)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: call, UpdateFunc: func(_, object any) { call(object) }, DeleteFunc: call,
	})
	return errors.Trace(err)
}

// trim leaves out of what is kept in memory what nobody here reads.
func trim(object any) (any, error) {
	if meta, ok := object.(metav1.Object); ok {
		meta.SetManagedFields(nil)
	}
	return object, nil
}

func (p *pods) run(ctx context.Context) {
	for _, factory := range p.factories {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	p.loop.run(ctx, 16)
	for _, factory := range p.factories {
		factory.Shutdown()
	}
}

// behaveAnew looks at all pods of the namespace of a changed ConfigMap.
func (p *pods) behaveAnew(key string) {
	namespace, _, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return
	}
	all, err := p.pods.Pods(namespace).List(labels.Everything())
	if err != nil {
		return
	}
	for _, pod := range all {
		p.queue.Add(cache.MetaObjectToName(pod).String())
	}
}

// sync brings one pod to where it should be.
func (p *pods) sync(ctx context.Context, key string) (time.Duration, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return 0, errors.Trace(err)
	}
	pod, err := p.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, errors.Trace(err)
	}
	how, err := p.behaviour(ctx, pod)
	switch {
	case errors.Is(err, errors.NotValid):
		// A test's mistake. The pod waits until it is put right.
		p.Logger.Warn("behaviour not understood", "pod", key, "error", err)
		return 0, nil
	case err != nil:
		return 0, errors.Trace(err)
	case pod.DeletionTimestamp != nil && how.Stuck:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return 0, p.remove(ctx, pod)
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return 0, nil
	}
	return p.proceed(ctx, pod, how)
}

// behaviour returns how the pod behaves. What cannot be taken back, a start and a
// removal, is not left to a cache that may not have seen the ConfigMap which the
// test made just before.
func (p *pods) behaviour(ctx context.Context, pod *corev1.Pod) (Behaviour, error) {
	var config *corev1.ConfigMap
	var err error
	if pod.DeletionTimestamp != nil || !everStarted(pod) {
		config, err = p.Client.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, BehaviourConfigMap, metav1.GetOptions{})
	} else {
		config, err = p.configs.ConfigMaps(pod.Namespace).Get(BehaviourConfigMap)
	}
	if apierrors.IsNotFound(err) {
		config, err = nil, nil
	}
	if err != nil {
		return Behaviour{}, errors.Annotate(err, "reading behaviours")
	}
	return behaviour(pod, config)
}

// proceed says what has become of the pod.
func (p *pods) proceed(ctx context.Context, pod *corev1.Pod, how Behaviour) (time.Duration, error) {
	now := time.Now()
	decided := decide(pod, how, now)
	again := decided.again
	// Nothing is said of another pod of the name.
	metadata := map[string]any{"uid": pod.UID}
	if decided.reads {
		files, err := readFiles(ctx, p.Client, pod)
		switch {
		case errors.Is(err, errors.NotFound):
			// As on a real node: its containers are not made.
			decided, again = &decision{}, mountAgain
		case err != nil:
			return 0, errors.Trace(err)
		default:
			text, err := json.Marshal(files)
			if err != nil {
				return 0, errors.Trace(err)
			}
			metadata["annotations"] = map[string]string{FilesAnnotation: string(text)}
		}
	}
	status := render(pod, how, decided, now)
	if !decided.reads && equality.Semantic.DeepEqual(status, pod.Status) {
		return again, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return 0, errors.Trace(err)
	}
	_, err = p.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if gone(err) {
		return 0, nil
	}
	return again, errors.Annotate(err, "saying the pod's status")
}

// remove is a kubelet's last word on a pod.
func (p *pods) remove(ctx context.Context, pod *corev1.Pod) error {
	err := p.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
	if gone(err) {
		return nil
	}
	return errors.Annotate(err, "removing the pod")
}

// gone says whether a call failed because the pod is no more, or is another.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
