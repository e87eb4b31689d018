package render_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/controller/render"
)

// failing is an API server that does not answer.
type failing struct{ client.Reader }

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not now")
}

func (failing) Data(context.Context, string, string) (map[string][]byte, error) {
	return nil, errors.New("not now")
}

// What cannot be read now is tried again: it is no verdict about the Render.
func TestReconcile_TriesAgainWhatCannotBeRead(t *testing.T) {
	c, documents := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) {
		c.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: "default", Name: "none"}
	})
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	known := s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonCredentialNotFound)
	for name, breaks := range map[string]func(*render.Reconciler){
		"its SpokeCluster": func(r *render.Reconciler) { r.Hub = failing{} },
		"its class":        func(r *render.Reconciler) { r.Classes.Objects = failing{} },
		"its credential":   func(r *render.Reconciler) { r.Classes.Secrets = failing{} },
	} {
		r, resolver := hub.reconciler, *hub.reconciler.Classes
		r.Classes = &resolver
		breaks(&r)
		_, err := r.Reconcile(t.Context(), mcreconcile.Request{
			ClusterName: multicluster.ClusterName(s.name), Request: ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "web"}},
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if now, _ := hub.outbox.answer(s.name, "shop/web"); *now.Refusal != *known.Refusal {
			t.Errorf("%s: the answer is now %+v", name, now.Refusal)
		}
	}
}

// An error without a reason is the store's, and its text stays on the hub.
func TestReconcile_AStoreThatCannotBeOpened(t *testing.T) {
	c, _ := class(t, nil)
	hub.stores.byClass.Delete(c.Name)
	s := newSpoke(t)
	s.says(web(c.Name))
	a := s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonStoreUnreachable)
	if strings.Contains(a.Refusal.Message, "the test has no store") {
		t.Errorf("the message holds the text of an untyped error: %s", a.Refusal.Message)
	}
}
