package apply_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/apply"
)

// patience is how long a test waits for the API server's controllers, on a busy machine.
// The garbage collector learns of a new kind within half a minute, and tries again after
// twice as long as before.
const patience = 3 * time.Minute

// fixture is a namespace of its own in the shared control plane.
type fixture struct {
	*testing.T
	namespace string
	client    client.Client
	applier   *apply.Applier
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	if err := cluster.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &fixture{
		T: t, namespace: ns.Name, client: cluster.Client,
		applier: &apply.Applier{Client: cluster.Client, Targets: cluster.Client, Renders: cluster.Client},
	}
}

// render creates a Render whose target is the Secret "target".
func (f *fixture) render(name string, change ...func(*v1alpha1.DynamicConfigRender)) *v1alpha1.DynamicConfigRender {
	f.Helper()
	r := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "store", Key: "app.json",
			Target: v1alpha1.RenderTarget{Secret: "target", Shape: v1alpha1.ShapeEntries},
		},
	}
	for _, c := range change {
		c(r)
	}
	f.must(f.client.Create(f.Context(), r))
	return r
}

// update changes a Render.
func (f *fixture) update(r *v1alpha1.DynamicConfigRender, change func(*v1alpha1.DynamicConfigRender)) {
	f.Helper()
	change(r)
	f.must(f.client.Update(f.Context(), r))
}

// apply applies content to a Render's target.
func (f *fixture) apply(r *v1alpha1.DynamicConfigRender, id string, keysAndValues ...string) (apply.Result, error) {
	f.Helper()
	data := make(map[string][]byte)
	for i := 0; i < len(keysAndValues); i += 2 {
		data[keysAndValues[i]] = []byte(keysAndValues[i+1])
	}
	return f.applier.Apply(f.Context(), apply.Desired{Render: r, ContentID: []byte(id), Data: data})
}

// written applies and wants exactly one write, or none.
func (f *fixture) written(want bool, r *v1alpha1.DynamicConfigRender, id string, keysAndValues ...string) {
	f.Helper()
	result, err := f.apply(r, id, keysAndValues...)
	f.must(err)
	if result.Written != want {
		f.Fatalf("want written=%v, got %+v", want, result)
	}
}

// refused applies and wants a reason.
func (f *fixture) refused(reason string, r *v1alpha1.DynamicConfigRender, id string, keysAndValues ...string) *apply.Error {
	f.Helper()
	_, err := f.apply(r, id, keysAndValues...)
	var refused *apply.Error
	if !errors.As(err, &refused) || refused.Reason != reason {
		f.Fatalf("want %s, got %v", reason, err)
	}
	return refused
}

// secret reads a Secret.
func (f *fixture) secret(name string) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{}
	f.must(f.client.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: name}, secret))
	return secret
}

// create creates the Secret "target" as somebody else.
func (f *fixture) create(change ...func(*corev1.Secret)) *corev1.Secret {
	f.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "target"},
		Data:       map[string][]byte{"a": []byte("theirs")},
	}
	for _, c := range change {
		c(secret)
	}
	f.must(f.client.Create(f.Context(), secret, client.FieldOwner("somebody")))
	return secret
}

// edit changes the Secret "target" as somebody else.
func (f *fixture) edit(change func(*corev1.Secret)) *corev1.Secret {
	f.Helper()
	secret := f.secret("target")
	change(secret)
	f.must(f.client.Update(f.Context(), secret, client.FieldOwner("kubectl-edit")))
	return secret
}

// intact is what Intact says of a Render's target.
func (f *fixture) intact(r *v1alpha1.DynamicConfigRender) string {
	f.Helper()
	target := apply.Metadata(r.Spec.Target.Kind())
	key := client.ObjectKey{Namespace: f.namespace, Name: r.Spec.Target.Name()}
	f.must(f.client.Get(f.Context(), key, target))
	return string(apply.Intact(r, target))
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// wantData compares the data of the Secret "target".
func (f *fixture) wantData(keysAndValues ...string) {
	f.Helper()
	secret := f.secret("target")
	if len(secret.Data) != len(keysAndValues)/2 {
		f.Fatalf("want %d keys, got %d", len(keysAndValues)/2, len(secret.Data))
	}
	for i := 0; i < len(keysAndValues); i += 2 {
		if got := string(secret.Data[keysAndValues[i]]); got != keysAndValues[i+1] {
			f.Errorf("key %s: want %q, got %q", keysAndValues[i], keysAndValues[i+1], got)
		}
	}
}
