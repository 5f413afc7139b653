package fakenode

import (
	"maps"
	"testing"

	"github.com/juju/errors"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestFilesAreWhereTheyAreMounted(t *testing.T) {
	t.Parallel()
	meta := metav1.ObjectMeta{Name: "config", Namespace: "ns"}
	client := fake.NewClientset(
		&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"agent": []byte("secret"), "other": []byte("more")}},
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": "plain"}, BinaryData: map[string][]byte{"bin": {1, 2}}},
	)
	items := []corev1.KeyToPath{{Key: "agent", Path: "etc/agent.conf"}}
	secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "config"}}
	withItems := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "config", Items: items}}
	local := corev1.LocalObjectReference{Name: "config"}
	for _, test := range []struct {
		name   string
		volume corev1.VolumeSource
		mount  corev1.VolumeMount
		want   map[string]string
	}{
		{"a whole secret", secret, corev1.VolumeMount{MountPath: "/a/"}, map[string]string{"/a/agent": "secret", "/a/other": "more"}},
		{"items", withItems, corev1.VolumeMount{MountPath: "/a"}, map[string]string{"/a/etc/agent.conf": "secret"}},
		{"one file", withItems, corev1.VolumeMount{MountPath: "/b/x.conf", SubPath: "etc/agent.conf"}, map[string]string{"/b/x.conf": "secret"}},
		{"a folder of it", withItems, corev1.VolumeMount{MountPath: "/b", SubPath: "etc"}, map[string]string{"/b/agent.conf": "secret"}},
		{"a name that only begins so", withItems, corev1.VolumeMount{MountPath: "/b", SubPath: "et"}, map[string]string{}},
		{
			"a config map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local}},
			corev1.VolumeMount{MountPath: "/a"}, map[string]string{"/a/text": "plain", "/a/bin": "\x01\x02"},
		},
		{
			"several in one", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: local, Items: items}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local, Items: []corev1.KeyToPath{{Key: "text", Path: "t"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{}},
			}}},
			corev1.VolumeMount{MountPath: "/a"}, map[string]string{"/a/etc/agent.conf": "secret", "/a/t": "plain"},
		},
		{"no files", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/a"}, map[string]string{}},
	} {
		pod := testPod()
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: test.volume}}
		test.mount.Name = "v"
		pod.Spec.Containers[1].VolumeMounts = []corev1.VolumeMount{test.mount}
		files, err := readFiles(t.Context(), client, pod)
		if err != nil || !maps.Equal(files, test.want) {
			t.Errorf("%s: %q (%v), want %q", test.name, files, err, test.want)
		}
	}
}

func TestMissingFileIsNotFoundUnlessOptional(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "there", Namespace: "ns"}})
	key := []corev1.KeyToPath{{Key: "k", Path: "p"}}
	read := func(optional *bool, secret string, items []corev1.KeyToPath) error {
		pod := testPod()
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: secret, Items: items, Optional: optional,
		}}}}
		_, err := readFiles(t.Context(), client, pod)
		return err
	}
	for name, err := range map[string]error{
		"secret": read(nil, "gone", nil), "key": read(nil, "there", key), "not optional": read(new(false), "gone", nil),
	} {
		if !errors.Is(err, errors.NotFound) {
			t.Errorf("missing %s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"secret": read(new(true), "gone", nil), "key": read(new(true), "there", key)} {
		if err != nil {
			t.Errorf("optional %s: %v", name, err)
		}
	}
}
