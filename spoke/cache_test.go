package spoke

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func TestCache_KeepsNothingThatItDoesNotNeed(t *testing.T) {
	annotations := func() map[string]string {
		return map[string]string{
			corev1.LastAppliedConfigAnnotation: `{"data":{"a":"canary"}}`, "team": "blue", v1alpha1.AnnotationSyncRequestedAt: "now",
		}
	}
	history := []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	kept := map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	for name, tc := range map[string]struct {
		transform   toolscache.TransformFunc
		wantHistory []metav1.ManagedFieldsEntry
	}{
		"of a Render": {withoutHistory, nil},
		"of a target, whose history tells its drift": {withoutForeignAnnotations, history},
	} {
		t.Run(name, func(t *testing.T) {
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: annotations(), ManagedFields: history}}
			if _, err := tc.transform(object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kept, object.Annotations); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.wantHistory, object.ManagedFields); diff != "" {
				t.Error(diff)
			}
		})
	}
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := withoutHistory(tombstone); got != any(tombstone) || err != nil {
		t.Errorf("a tombstone became %v, %v", got, err)
	}
}

func TestCache_NamesTheNamespacesOrNone(t *testing.T) {
	for name, tc := range map[string][]string{"all": nil, "two": {"team-a", "team-b"}} {
		t.Run(name, func(t *testing.T) {
			if got := cacheOptions(tc).DefaultNamespaces; len(got) != len(tc) {
				t.Errorf("want %v, got %v", tc, got)
			}
		})
	}
}
