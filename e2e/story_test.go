package e2e_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// The story of the demo: a document of the hub cluster arrives in two clusters,
// changes, is refused to who may not have it, and goes with its Render.
func TestStory_ADocumentOfTheHubCluster(t *testing.T) {
	document := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "story-docs", Name: "shop"},
		StringData: map[string]string{"db.yaml": "password: first\nport: 5432\n"},
	}
	create(t, fleet.Hub.Cluster, namespace("story-docs"), document,
		clusterClass("story", "story-docs", func(s *v1alpha1.ClusterDynamicConfigClassSpec) { s.Namespaces = []string{"story"} }))
	namespaces(t, "story")
	namespaces(t, "story-stranger")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("story", "story", "secrets/shop/db.yaml"), render("story-stranger", "story", "secrets/shop/db.yaml"))
	}

	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "story", "password", "first")
		holds(t, spoke, "story", "port", "5432")
		isReady(t, spoke, "story", metav1.ConditionTrue, v1alpha1.ReasonRendered)
		isReady(t, spoke, "story-stranger", metav1.ConditionFalse, v1alpha1.ReasonClassNotAllowed)
		if _, err := target(t.Context(), spoke, "story-stranger"); !apierrors.IsNotFound(err) {
			t.Errorf("%s: a namespace outside the allowlist has a target (%v)", spoke.Name, err)
		}
	}

	began := time.Now()
	update(t, fleet.Hub.Cluster, document, func(s *corev1.Secret) { s.Data["db.yaml"] = []byte("password: second\n") })
	for _, spoke := range fleet.Spokes {
		secret := holds(t, spoke, "story", "password", "second")
		if _, still := secret.Data["port"]; still {
			t.Errorf("%s: a key that left the document is still in the target", spoke.Name)
		}
	}
	t.Logf("an edit in the hub cluster was in both spokes after %d ms", time.Since(began).Milliseconds())

	for _, spoke := range fleet.Spokes {
		if err := spoke.Client.Delete(t.Context(), render("story", "", "")); err != nil {
			t.Fatal(err)
		}
		isGone(t, spoke, "story")
	}
}
