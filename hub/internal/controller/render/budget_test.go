package render_test

import (
	"bytes"
	"context"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// A Render whose document the hub no longer holds keeps what it has: it is told
// nothing until the document is there again, and then the same.
func TestReconcile_ADocumentThatWasGivenUp(t *testing.T) {
	c, documents := class(t, nil)
	documents.Put("app.json", document)
	documents.Put("other.json", document)
	s := newSpoke(t)
	other := web(c.Name)
	other.Name, other.UID, other.Spec.Key = "other", "u-2", "other.json"
	s.says(web(c.Name), other)
	s.has(`"one"`) // the mirror is there

	woken := make(chan string, 16)
	r := hub.reconciler
	feeds := feed.New(feed.Config{MaxBytes: 1, Wake: func(sub feed.Subscriber) { woken <- sub.Name }})
	told := newOutbox()
	told.connect(s.name, true)
	r.Feeds, r.Outbox = feeds, told
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- feeds.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// answer reconciles a Render and takes what it is told, if anything.
	answer := func(name string) (fleet.Answer, bool) {
		t.Helper()
		if _, err := r.Reconcile(ctx, mcreconcile.Request{
			ClusterName: multicluster.ClusterName(s.name), Request: ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: name}},
		}); err != nil {
			t.Fatal(err)
		}
		got, ok := told.answer(s.name, "shop/"+name)
		delete(told.answers, s.name+" shop/"+name)
		return got, ok
	}
	// arrives waits until a Render is woken and told its content.
	arrives := func(name string) []byte {
		t.Helper()
		if got, ok := answer(name); ok {
			t.Fatalf("%s: told %+v before its document is there", name, got)
		}
		for <-woken != name {
		}
		got, ok := answer(name)
		if !ok || got.Refusal != nil || got.Content == nil {
			t.Fatalf("%s: told %+v, want its content", name, got)
		}
		return got.Content.ID
	}
	first := arrives("web")
	arrives("other") // there is room for one
	if again := arrives("web"); !bytes.Equal(again, first) {
		t.Error("another content after the same document was fetched again")
	}
}
