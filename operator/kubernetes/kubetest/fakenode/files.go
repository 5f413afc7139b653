package fakenode

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// readFiles returns what the pod's containers find where they mount Secrets and
// ConfigMaps, by absolute path. It is an errors.NotFound when one that is not
// optional, or a key of it, is missing.
func readFiles(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (map[string]string, error) {
	volumes := make(map[string]map[string]string)
	for _, volume := range pod.Spec.Volumes {
		content, err := readVolume(ctx, client, pod.Namespace, volume.VolumeSource)
		if err != nil {
			return nil, errors.Annotatef(err, "volume %q", volume.Name)
		}
		volumes[volume.Name] = content
	}
	files := make(map[string]string)
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, mount := range container.VolumeMounts {
			for name, content := range volumes[mount.Name] {
				if at, ok := mounted(mount, name); ok {
					files[at] = content
				}
			}
		}
	}
	return files, nil
}

// mounted returns where a volume's file is in the container; false if it is not.
func mounted(mount corev1.VolumeMount, name string) (string, bool) {
	if mount.SubPath == "" {
		return path.Join(mount.MountPath, name), true
	}
	within := path.Clean(mount.SubPath)
	if name == within {
		return path.Clean(mount.MountPath), true
	}
	below, ok := strings.CutPrefix(name, within+"/")
	return path.Join(mount.MountPath, below), ok
}

// readVolume returns a volume's files by their path in it.
func readVolume(ctx context.Context, client kubernetes.Interface, namespace string, volume corev1.VolumeSource) (map[string]string, error) {
	r := reader{client: client, namespace: namespace, files: make(map[string]string)}
	var err error
	switch {
	case volume.Secret != nil:
		err = r.secret(ctx, volume.Secret.SecretName, volume.Secret.Items, volume.Secret.Optional)
	case volume.ConfigMap != nil:
		err = r.configMap(ctx, volume.ConfigMap.Name, volume.ConfigMap.Items, volume.ConfigMap.Optional)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			switch {
			case source.Secret != nil:
				err = r.secret(ctx, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
			case source.ConfigMap != nil:
				err = r.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
			}
			if err != nil {
				break
			}
		}
	}
	return r.files, errors.Trace(err)
}

// A reader collects the files of one volume.
type reader struct {
	client    kubernetes.Interface
	namespace string
	files     map[string]string
}

func (r reader) secret(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) error {
	secret, err := r.client.CoreV1().Secrets(r.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	return r.add(secret.Data, nil, items, optional)
}

func (r reader) configMap(ctx context.Context, name string, items []corev1.KeyToPath, optional *bool) error {
	config, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return missing(err, optional)
	}
	return r.add(config.BinaryData, config.Data, items, optional)
}

func missing(err error, optional *bool) error {
	switch {
	case !apierrors.IsNotFound(err):
		return errors.Trace(err)
	case optional != nil && *optional:
		return nil
	}
	return errors.NewNotFound(err, "mounting")
}

// add puts in what is in one of the two: all, or the items.
func (r reader) add(binary map[string][]byte, text map[string]string, items []corev1.KeyToPath, optional *bool) error {
	all := make(map[string]string, len(binary)+len(text))
	for key, data := range binary {
		all[key] = string(data)
	}
	maps.Copy(all, text)
	if items == nil {
		maps.Copy(r.files, all)
		return nil
	}
	for _, item := range items {
		data, ok := all[item.Key]
		if ok {
			r.files[path.Clean(item.Path)] = data
		} else if optional == nil || !*optional {
			return errors.NotFoundf("key %q", item.Key)
		}
	}
	return nil
}
