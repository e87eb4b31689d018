package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/bundle"
)

// canary stands for everything that must not leave.
const canary = "c4n4ry"

// meta has a canary wherever people or tools may have put a value.
func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:   "name",
		Labels: map[string]string{"app": canary},
		Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": canary,
			v1alpha1.AnnotationContentID:                       "kept",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: canary}},
	}
}

func TestBundle_HoldsNoValue(t *testing.T) {
	class := &v1alpha1.ClusterDynamicConfigClass{ObjectMeta: meta()}
	class.Spec.Endpoint = "https://user:" + canary + "@vault:8200/a?token=" + canary + "#" + canary
	class.Spec.Vault = &v1alpha1.VaultOptions{Auth: &v1alpha1.VaultAuth{AppRole: &v1alpha1.VaultAppRoleAuth{RoleID: canary}}}
	namespaced := &v1alpha1.DynamicConfigClass{ObjectMeta: meta()}
	namespaced.Spec.Endpoint = "%zz" + canary
	cluster := &v1alpha1.SpokeCluster{ObjectMeta: meta()}
	cluster.Labels = nil
	cluster.Spec.JoinToken = &v1alpha1.JoinToken{SHA256: canary}
	cluster.Status.RedeemedJoinToken = canary
	cm := &corev1.ConfigMap{
		ObjectMeta: meta(), Data: map[string]string{"a": canary}, BinaryData: map[string][]byte{"b": []byte(canary)},
	}
	render := bundle.RenderOf(&v1alpha1.DynamicConfigRender{ObjectMeta: meta()})
	for name, object := range map[string]any{
		"class": bundle.ClassOf(class), "namespaced class": bundle.ClassOf(namespaced), "cluster": bundle.SpokeClusterOf(cluster),
		"configmap": bundle.ConfigMapOf(cm), "render": render,
		"secret": bundle.TargetOf("Secret", &corev1.Secret{ObjectMeta: meta(), Data: map[string][]byte{"a": []byte(canary)}}),
	} {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), canary) {
			t.Errorf("%s holds the canary:\n%s", name, text)
		}
		if !strings.Contains(string(text), "name: name") {
			t.Errorf("%s lost its name:\n%s", name, text)
		}
	}
	if class.Spec.Vault.Auth.AppRole.RoleID != canary || cluster.Spec.JoinToken.SHA256 != canary {
		t.Error("the object itself was changed")
	}
	if diff := cmp.Diff(map[string]int{"a": len(canary), "b": len(canary)}, bundle.ConfigMapOf(cm).Keys); diff != "" {
		t.Error(diff)
	}
	if bundle.ClassOf(cluster) != nil {
		t.Error("a cluster became a class")
	}
}

func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"https://vault:8200":           "https://vault:8200",
		"https://u:p@vault:8200/x":     "https://vault:8200/x",
		"https://u@vault?a=b#c":        "https://vault",
		"vault:8200":                   "<redacted>",
		"://":                          "<redacted>",
		"http://consul.example/prefix": "http://consul.example/prefix",
	} {
		if got := bundle.Endpoint(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestEventOf(t *testing.T) {
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	of := corev1.ObjectReference{APIVersion: "dynamic-config.rs/v1alpha1", Kind: "DynamicConfigRender", Namespace: "shop", Name: "db"}
	for name, c := range map[string]struct {
		event corev1.Event
		want  *bundle.Event
	}{
		"an event of a Pod stays out":    {corev1.Event{InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod"}}, nil},
		"another group's kind stays out": {corev1.Event{InvolvedObject: corev1.ObjectReference{APIVersion: "x/v1", Kind: "SpokeCluster"}}, nil},
		"a new event has its own time": {
			corev1.Event{InvolvedObject: of, Type: "Warning", Reason: "KeyForbidden", EventTime: metav1.NewMicroTime(at)},
			&bundle.Event{Object: "DynamicConfigRender/shop/db", Type: "Warning", Reason: "KeyForbidden", Last: metav1.NewTime(at)},
		},
		"a series has the time of its last": {
			corev1.Event{InvolvedObject: of, Series: &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at)}},
			&bundle.Event{Object: "DynamicConfigRender/shop/db", Count: 3, Last: metav1.NewTime(at)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, bundle.EventOf(&c.event)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestArchive_ReadsBack(t *testing.T) {
	var out bytes.Buffer
	a := bundle.NewArchive(&out, "folder", time.Unix(1, 0))
	if err := a.YAML("a/b.yaml", map[string]int{"x": 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	compressed, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(compressed)
	header, err := files.Next()
	if err != nil || header.Name != "folder/a/b.yaml" || header.Mode != 0o600 {
		t.Fatalf("%v, %v", header, err)
	}
	text, err := io.ReadAll(files)
	if err != nil || string(text) != "x: 1\n" {
		t.Fatalf("%q, %v", text, err)
	}
	if _, err := files.Next(); err != io.EOF {
		t.Errorf("more follows: %v", err)
	}
}
