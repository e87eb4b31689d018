package mirror_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func TestCluster_Reads(t *testing.T) {
	r := newRig(t)
	other := render("api", "vault", 1)
	other.Namespace, other.Labels = "team", map[string]string{"tier": "back"}
	r.replace("prod", render("web", "consul", 1), render("db", "vault", 1), other)
	c := get(t, r.provider, "prod")
	for name, tc := range map[string]struct {
		opts []client.ListOption
		want []string
	}{
		"all":                                {nil, []string{"api", "db", "web"}},
		"of a namespace":                     {[]client.ListOption{client.InNamespace("shop")}, []string{"db", "web"}},
		"of a class":                         {[]client.ListOption{client.MatchingFields{classField: "vault"}}, []string{"api", "db"}},
		"of a class in a namespace":          {[]client.ListOption{client.MatchingFields{classField: "vault"}, client.InNamespace("shop")}, []string{"db"}},
		"of a label":                         {[]client.ListOption{client.MatchingLabels{"tier": "back"}}, []string{"api"}},
		"of a class that none of them names": {[]client.ListOption{client.MatchingFields{classField: "none"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var list v1alpha1.DynamicConfigRenderList
			if err := c.GetClient().List(t.Context(), &list, tc.opts...); err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range list.Items {
				got = append(got, list.Items[i].Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	mine := &v1alpha1.DynamicConfigRender{}
	key := client.ObjectKey{Namespace: "shop", Name: "web"}
	if err := c.GetAPIReader().Get(t.Context(), key, mine); err != nil {
		t.Fatal(err)
	}
	mine.Spec.Class = "changed"
	again := &v1alpha1.DynamicConfigRender{}
	if err := c.GetCache().Get(t.Context(), key, again); err != nil || again.Spec.Class != "consul" {
		t.Errorf("a reader changed the mirror: %q, %v", again.Spec.Class, err)
	}
	if err := c.GetClient().List(t.Context(), &v1alpha1.DynamicConfigRenderList{}, client.MatchingFields{"unknown": "x"}); err == nil {
		t.Error("listed by a field without an index")
	}
	if err := c.GetClient().List(t.Context(), &v1alpha1.DynamicConfigRenderList{}, client.MatchingFields{classField: "c", "unknown": "x"}); err == nil {
		t.Error("listed by two fields")
	}
}

func TestCluster_MirrorsNothingElse(t *testing.T) {
	r := newRig(t)
	r.replace("prod")
	c := get(t, r.provider, "prod")
	secret, uncached := &corev1.Secret{}, &cache.ErrResourceNotCached{}
	_, informerErr := c.GetCache().GetInformer(t.Context(), secret)
	_, kindErr := c.GetCache().GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("Secret"))
	for name, err := range map[string]error{
		"get": c.GetClient().Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "b"}, secret), "informer": informerErr, "kind": kindErr,
		"index": c.GetFieldIndexer().IndexField(t.Context(), secret, "f", func(client.Object) []string { return nil }),
	} {
		if !errors.As(err, &uncached) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.GetClient().List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("listed Secrets of a spoke")
	}
	if _, err := c.GetCache().GetInformerForKind(t.Context(), v1alpha1.GroupVersion.WithKind("DynamicConfigRender")); err != nil {
		t.Error(err)
	}
}

func TestCluster_CannotBeWritten(t *testing.T) {
	r := newRig(t)
	r.replace("prod", render("web", "c", 1))
	cl := get(t, r.provider, "prod")
	c, o, ctx := cl.GetClient(), render("web", "c", 2), t.Context()
	sub := c.SubResource("status")
	for name, err := range map[string]error{
		"create": c.Create(ctx, o), "update": c.Update(ctx, o), "delete": c.Delete(ctx, o),
		"patch": c.Patch(ctx, o, client.Merge), "apply": c.Apply(ctx, nil), "delete all": c.DeleteAllOf(ctx, o),
		"status update": c.Status().Update(ctx, o), "status patch": c.Status().Patch(ctx, o, client.Merge),
		"status create": c.Status().Create(ctx, o, o), "status apply": c.Status().Apply(ctx, nil), "status get": sub.Get(ctx, o, o),
	} {
		if !apierrors.IsMethodNotSupported(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Events are dropped, and nobody waits for a reader of them.
	cl.GetEventRecorderFor("x").Event(o, corev1.EventTypeNormal, "Reason", "message") //nolint:staticcheck // part of the interface
	cl.GetEventRecorder("x").Eventf(o, nil, corev1.EventTypeNormal, "Reason", "Action", "note")
	if namespaced, err := c.IsObjectNamespaced(o); err != nil || !namespaced {
		t.Errorf("namespaced %v, %v", namespaced, err)
	}
	if gvk, err := c.GroupVersionKindFor(o); err != nil || gvk.Kind != "DynamicConfigRender" {
		t.Errorf("kind %v, %v", gvk, err)
	}
	if cl.GetHTTPClient() != nil || cl.GetConfig().Host != "session://prod" || cl.GetScheme() != c.Scheme() || cl.GetRESTMapper() != c.RESTMapper() {
		t.Error("a virtual cluster pretends to be reachable")
	}
}
