package render_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

func TestWakes_AClassThatIsEdited(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	s.has(`"one"`)

	c.Spec.Namespaces = []string{"team-a"}
	update(t, c)
	s.refused(v1alpha1.ReasonClassNotAllowed, "")
	closes(t, documents) // who may not have a document does not follow it

	c.Spec.Namespaces = nil
	update(t, c)
	s.has(`"one"`)
	if err := hub.client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.refused(v1alpha1.ReasonClassNotFound, "")
}

func TestWakes_AClassThatComesLater(t *testing.T) {
	name := "class-" + unique(t)
	s := newSpoke(t)
	s.says(web(name))
	s.refused(v1alpha1.ReasonClassNotFound, "")
	documents := memory.New()
	documents.Put("app.json", document)
	hub.stores.byClass.Store(name, documents)
	create(t, &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example:8500"}},
	})
	s.has(`"one"`)
}

// A namespaced class serves the namespace of its name.
func TestWakes_ANamespacedClass(t *testing.T) {
	namespace := unique(t)
	documents := memory.New()
	documents.Put("app.json", document)
	hub.stores.byClass.Store("class-"+namespace, documents)
	c := &v1alpha1.DynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "class-" + namespace},
		Spec:       v1alpha1.DynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example:8500"}},
	}
	s := newSpoke(t)
	mine, others := web(c.Name), web(c.Name)
	mine.Namespace, mine.Spec.ClassKind = namespace, v1alpha1.ClassKindNamespaced
	others.Spec.ClassKind = v1alpha1.ClassKindNamespaced
	s.says(mine, others)
	s.refused(v1alpha1.ReasonClassNotFound, "")
	create(t, c)
	gomega.NewWithT(t).Eventually(func() bool {
		a, _ := hub.outbox.answer(s.name, namespace+"/web")
		return a.Content != nil
	}).WithTimeout(patience).Should(gomega.BeTrue())
	s.refused(v1alpha1.ReasonClassNotFound, "")
}

func TestWakes_ASpokeClusterThatIsEdited(t *testing.T) {
	c, documents := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) {
		c.Spec.Clusters = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	})
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	s.refused(v1alpha1.ReasonClassNotAllowed, "")

	s.object.Labels = map[string]string{"env": "prod"}
	update(t, s.object)
	s.has(`"one"`)

	s.object.Spec.Suspend = true
	update(t, s.object)
	s.refused(v1alpha1.ReasonClassNotAllowed, "")
	closes(t, documents)

	s.object.Spec.Suspend = false
	update(t, s.object)
	s.has(`"one"`)
	if err := hub.client.Delete(t.Context(), s.object); err != nil {
		t.Fatal(err)
	}
	s.refused(v1alpha1.ReasonClassNotAllowed, "")
}

func TestWakes_ASecretThatIsRotated(t *testing.T) {
	namespace := unique(t)
	c, documents := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) {
		c.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: namespace, Name: "token"}
	})
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonCredentialNotFound)

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "token"}, Data: map[string][]byte{"token": []byte(canary + "-1")}}
	create(t, secret)
	s.has(`"one"`)
	opensWith(t, c.Name, canary+"-1")

	fetches := documents.Fetches("app.json")
	secret.Labels = map[string]string{"a": "b"}
	update(t, secret)
	secret.Data["token"] = []byte(canary + "-2")
	update(t, secret)
	opensWith(t, c.Name, canary+"-2")
	gomega.NewWithT(t).Eventually(func() int { return documents.Fetches("app.json") }).WithTimeout(patience).Should(gomega.Equal(fetches+1),
		"one fetch with the new credential, and none for the label")
	s.has(`"one"`)

	if err := hub.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonCredentialNotFound)
}

func opensWith(t *testing.T, class, token string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() any {
		last, _ := hub.stores.tokens.Load(class)
		return last
	}).WithTimeout(patience).Should(gomega.Equal(token))
}

func TestWakes_ASyncThatIsAskedFor(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s, render := newSpoke(t), web(c.Name)
	s.says(render)
	s.has(`"one"`)
	before := documents.Fetches("app.json")
	asked := render.DeepCopy()
	asked.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	hub.mirrors.Upsert(s.name, asked)
	s.eventually("the sync is echoed", func(a fleet.Answer) bool { return a.HandledSync == "now" })
	if n := documents.Fetches("app.json"); n != before+1 {
		t.Errorf("echoed after %d fetches, want one", n-before)
	}

	// A reconnect that repeats the request asks for nothing.
	reconnected := asked.DeepCopy()
	reconnected.Generation = 2
	s.says(reconnected)
	s.eventually("the reconnect is answered", func(a fleet.Answer) bool { return a.Generation == 2 })
	if n := documents.Fetches("app.json"); n != before+1 {
		t.Errorf("the repeated request was fetched for: %d", n-before)
	}
}

// What a failing fetch answers is an answer too.
func TestWakes_ASyncThatIsAskedForAndFails(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s, render := newSpoke(t), web(c.Name)
	long := int32(24 * 60 * 60)
	render.Spec.IntervalSeconds = &long
	s.says(render)
	s.has(`"one"`)
	documents.Fail(&store.Error{Reason: v1alpha1.ReasonStoreSealed, Op: "fetch", Key: "app.json"})
	asked := render.DeepCopy()
	asked.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	hub.mirrors.Upsert(s.name, asked)
	a := s.eventually("the sync is echoed", func(a fleet.Answer) bool { return a.HandledSync == "now" })
	if a.Refusal == nil || a.Refusal.CauseReason != v1alpha1.ReasonStoreSealed {
		t.Errorf("echoed without the failure of its fetch: %+v", a)
	}
}

// A refusal before any fetch handles the request: there is nothing to wait for.
func TestWakes_ASyncThatIsAskedForAndNotAllowed(t *testing.T) {
	c, _ := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) { c.Spec.Namespaces = []string{"team-a"} })
	s, render := newSpoke(t), web(c.Name)
	render.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	s.says(render)
	if a := s.refused(v1alpha1.ReasonClassNotAllowed, ""); a.HandledSync != "now" {
		t.Errorf("the refusal handles %q", a.HandledSync)
	}
}

func TestRelease(t *testing.T) {
	for name, leave := range map[string]func(*spoke, *v1alpha1.DynamicConfigRender, *memory.Store){
		"a Render that is suspended": func(s *spoke, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Suspend, r.Generation = true, 2
			hub.mirrors.Upsert(s.name, r)
		},
		"a Render that is deleted": func(s *spoke, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			hub.mirrors.Remove(s.name, r.Namespace, r.Name)
		},
		"a Render that a reconnect leaves out": func(s *spoke, _ *v1alpha1.DynamicConfigRender, _ *memory.Store) { s.says() },
		"a Render whose class is another": func(s *spoke, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Class, r.Generation = "none", 2
			hub.mirrors.Upsert(s.name, r)
		},
		"a cluster without a session, at the next change": func(s *spoke, _ *v1alpha1.DynamicConfigRender, documents *memory.Store) {
			hub.outbox.connect(s.name, false)
			documents.Put("app.json", strings.Replace(document, "one", "two", 1))
		},
		"a cluster that was forgotten, at the next change": func(s *spoke, _ *v1alpha1.DynamicConfigRender, documents *memory.Store) {
			hub.mirrors.Forget(s.name)
			documents.Put("app.json", strings.Replace(document, "one", "two", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, documents := class(t, nil)
			documents.Put("app.json", document)
			s, render := newSpoke(t), web(c.Name)
			s.says(render)
			s.has(`"one"`)
			leave(s, render.DeepCopy(), documents)
			closes(t, documents)
			if a, _ := hub.outbox.answer(s.name, "shop/web"); a.Content != nil && strings.Contains(string(a.Content.Data["app.json"]), "two") {
				t.Error("it was answered once more")
			}
		})
	}
}
