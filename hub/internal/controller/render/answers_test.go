package render_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

const document = `{"name":"one","token":"` + canary + `"}`

func TestReconcile_Refusals(t *testing.T) {
	type edit = func(*v1alpha1.ClusterDynamicConfigClass, *v1alpha1.DynamicConfigRender, *memory.Store)
	put := func(doc store.Document) edit {
		return func(_ *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, s *memory.Store) {
			s.PutDocument("app.json", doc)
		}
	}
	for name, tc := range map[string]struct {
		edit                    edit
		ready, condition, cause string
		fetches                 bool
	}{
		"a class that is not there": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Class = "none"
		}, v1alpha1.ReasonClassNotFound, "", "", false},
		"a kind of class of the future": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.ClassKind = "unknown"
		}, v1alpha1.ReasonClassNotFound, "", "", false},
		"a namespace outside the allowlist": {func(c *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			c.Spec.Namespaces = []string{"team-a"}
		}, v1alpha1.ReasonClassNotAllowed, "", "", false},
		"a key outside the patterns": {func(c *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			c.Spec.Keys = []string{"{cluster}/**"}
		}, v1alpha1.ReasonClassNotAllowed, "", "", false},
		"a cluster the selector leaves out": {func(c *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			c.Spec.Clusters = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "other"}}
		}, v1alpha1.ReasonClassNotAllowed, "", "", false},
		"a key without a canonical form": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Key = "a/../app.json"
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonKeyInvalid, false},
		"a credential that is not there": {func(c *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			c.Spec.TokenSecret = &v1alpha1.SecretReference{Namespace: "default", Name: "none"}
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonCredentialNotFound, false},
		"a document that is not there": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Key = "none.json"
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonDocumentNotFound, false},
		"a document that does not parse": {
			put(store.Document{Text: []byte(`{"token":"` + canary + `"`)}),
			v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonDocumentInvalid, true,
		},
		"a section that is not there": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Section = "db"
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonDocumentInvalid, true},
		"a secret document for a ConfigMap": {
			put(store.Document{Text: []byte(document), Secret: true}),
			v1alpha1.ReasonRenderFailed, v1alpha1.ConditionApplied, v1alpha1.ReasonSecrecyDowngrade, true,
		},
		"a file that no writer knows": {func(_ *v1alpha1.ClusterDynamicConfigClass, r *v1alpha1.DynamicConfigRender, _ *memory.Store) {
			r.Spec.Target.File = "app.exe"
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetInvalid, true},
		"a store that is down": {func(_ *v1alpha1.ClusterDynamicConfigClass, _ *v1alpha1.DynamicConfigRender, s *memory.Store) {
			s.Fail(&store.Error{Reason: v1alpha1.ReasonStoreUnreachable, Op: "fetch", Key: "app.json"})
		}, v1alpha1.ReasonRenderFailed, v1alpha1.ConditionFetched, v1alpha1.ReasonStoreUnreachable, true},
	} {
		t.Run(name, func(t *testing.T) {
			render := web("")
			var documents *memory.Store
			c, documents := class(t, func(c *v1alpha1.ClusterDynamicConfigClass) {
				render.Spec.Class = c.Name
				tc.edit(c, render, memory.New()) // what it does to the class; its store comes below
			})
			documents.Put("app.json", document)
			tc.edit(c.DeepCopy(), render, documents)
			s := newSpoke(t)
			s.says(render)
			a := s.refused(tc.ready, tc.cause)
			if a.Refusal.CauseCondition != tc.condition {
				t.Errorf("the cause is on %q, want %q", a.Refusal.CauseCondition, tc.condition)
			}
			if a.UID != "u-1" || a.Generation != 1 {
				t.Errorf("it answers %s@%d", a.UID, a.Generation)
			}
			if asked := documents.Fetches("app.json") > 0; asked != tc.fetches {
				t.Errorf("the store was asked for the document: %v, want %v", asked, tc.fetches)
			}
			if strings.Contains(a.Refusal.Message, "team-a") {
				t.Errorf("the message tells what would be allowed: %s", a.Refusal.Message)
			}
		})
	}
}

func TestReconcile_Content(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	render := web(c.Name)
	render.Annotations = map[string]string{v1alpha1.AnnotationSyncRequestedAt: "now"}
	s.says(render)
	// A fetch that began before the sync was asked for tells the content first.
	a := s.eventually("the sync is echoed", func(a fleet.Answer) bool { return a.HandledSync == "now" })
	if a.Content == nil || a.Generation != 1 || a.UID != "u-1" || len(a.Content.ID) != 32 || a.Content.SourceVersion == "" {
		t.Fatalf("answer %+v", a)
	}
	s.has(`"one"`)
	documents.Put("app.json", strings.Replace(document, "one", "two", 1))
	s.has(`"two"`)
}

func TestReconcile_ASecretDocumentForASecret(t *testing.T) {
	c, documents := class(t, nil)
	documents.PutDocument("app.json", store.Document{Text: []byte(document), Secret: true})
	s := newSpoke(t)
	render := web(c.Name)
	s.says(render)
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonSecrecyDowngrade)
	render = render.DeepCopy()
	render.Generation, render.Spec.Target = 2, v1alpha1.RenderTarget{Secret: "web", File: "app.json"}
	s.says(render)
	s.has(canary)
}

// The store's trouble is told, and gone once the store is back.
func TestReconcile_AStoreThatFailsAndRecovers(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	first := s.has(`"one"`)
	documents.Fail(&store.Error{Reason: v1alpha1.ReasonStoreSealed, Op: "fetch", Key: "app.json"})
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonStoreSealed)
	documents.Fail(nil)
	if again := s.has(`"one"`); again.Content != first.Content {
		t.Error("an unchanged document was rendered again")
	}
}

func TestReconcile_OneDocumentForTheFleet(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	var contents []*fleet.Content
	for range 3 {
		s := newSpoke(t)
		s.says(web(c.Name))
		contents = append(contents, s.has(`"one"`).Content)
	}
	if contents[0] != contents[1] || contents[1] != contents[2] {
		t.Error("each cluster has a rendering of its own")
	}
	if n := documents.Fetches("app.json"); n != 1 {
		t.Errorf("%d fetches of one document", n)
	}
	// Another form of it is another rendering of the same fetch.
	s, other := newSpoke(t), web(c.Name)
	other.Spec.Target.Shape, other.Spec.Target.File = v1alpha1.ShapeEntries, ""
	s.says(other)
	a := s.eventually("entries", func(a fleet.Answer) bool { return a.Content != nil })
	if a.Content == contents[0] || string(a.Content.Data["name"]) != "one" {
		t.Errorf("entries: %+v", a)
	}
	if n := documents.Fetches("app.json"); n != 1 {
		t.Errorf("%d fetches of one document in two forms", n)
	}
}
