package render_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// transcript is the audit log of the tests of the package.
type transcript struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (a *transcript) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(line)
}

// of are the verdicts about a cluster's Render shop/web, in order.
func (a *transcript) of(t *testing.T, cluster string) []string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.Contains(a.text.String(), canary) {
		t.Error("the audit log holds a value")
	}
	var verdicts []string
	for line := range strings.Lines(a.text.String()) {
		var d struct{ Cluster, Namespace, Render, Class, Key, Verdict, Reason, Rule string }
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.Cluster == cluster && d.Namespace == "shop" && d.Render == "web" {
			verdicts = append(verdicts, strings.TrimRight(strings.Join([]string{d.Verdict, d.Key, d.Reason, d.Rule}, " "), " "))
		}
	}
	return verdicts
}

// Each decision that differs is a line, in the order they were made; a store that
// fails decides about nobody, and a look that finds the same is none.
func TestReconcile_AuditsDecisionsThatChange(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	render := web(c.Name)
	s.says(render)
	s.has(`"one"`)
	documents.Fail(&store.Error{Reason: v1alpha1.ReasonStoreSealed, Op: "fetch", Key: "app.json"})
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonStoreSealed)
	documents.Fail(nil)
	s.has(`"one"`)
	documents.Put("app.json", strings.Replace(document, "one", "two", 1))
	s.has(`"two"`)
	c.Spec.Keys = []string{"{cluster}/**"}
	update(t, c)
	s.refused(v1alpha1.ReasonClassNotAllowed, "")

	change := func(key string) {
		render = render.DeepCopy()
		render.Generation, render.Spec.Key = render.Generation+1, key
		s.says(render)
	}
	change("a/../app.json")
	s.refused(v1alpha1.ReasonRenderFailed, v1alpha1.ReasonKeyInvalid)
	change("app.json")
	s.refused(v1alpha1.ReasonClassNotAllowed, "")
	want := []string{
		"allowed app.json", "allowed app.json",
		"refused app.json ClassNotAllowed keys",
		"refused a/../app.json KeyInvalid key",
		"refused app.json ClassNotAllowed keys",
	}
	gomega.NewWithT(t).Eventually(func() string { return cmp.Diff(want, hub.audited.of(t, s.name)) }).WithTimeout(patience).Should(gomega.BeEmpty())
}

// A Render that is gone is forgotten: one that comes back under its name is a line.
func TestReconcile_AuditForgetsARenderThatIsGone(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	s := newSpoke(t)
	s.says(web(c.Name))
	s.has(`"one"`)
	s.says()
	closes(t, documents)
	again := memory.New()
	again.Put("app.json", document)
	hub.stores.byClass.Store(c.Name, again)
	s.says(web(c.Name))
	gomega.NewWithT(t).Eventually(func() int { return len(hub.audited.of(t, s.name)) }).WithTimeout(patience).Should(gomega.Equal(2))
}
