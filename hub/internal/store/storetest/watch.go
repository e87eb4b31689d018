package storetest

import (
	"context"
	"errors"
	"testing"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// answer is what a Watch came back with.
type answer struct {
	doc *store.Document
	err error
}

// watch starts a Watch that ends with the test, and answers where its answer
// will be.
func watch(t *testing.T, w store.Watcher, key policy.Key, after string) <-chan answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	answers := make(chan answer, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		doc, err := w.Watch(ctx, key, after)
		answers <- answer{doc, err}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return answers
}

func watchChange(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key := h.Key("watch-change")
	h.Put(t, key, "one")
	first := Eventually(t, w, key, "one")
	answers := watch(t, w, key, first.Version)
	h.Put(t, key, "two")
	got := <-answers
	if got.err != nil || string(got.doc.Text) != "two" || got.doc.Version == first.Version {
		t.Errorf("got %+v, want the second version", got)
	}
}

func watchDeletion(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key := h.Key("watch-deletion")
	h.Put(t, key, "one")
	first := Eventually(t, w, key, "one")
	answers := watch(t, w, key, first.Version)
	h.Delete(t, key)
	got := <-answers
	wantAbsent(t, got.doc, got.err)
}

func watchAppear(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key := h.Key("watch-appear")
	doc, err := w.Fetch(t.Context(), key)
	wantAbsent(t, doc, err)
	answers := watch(t, w, key, "")
	h.Put(t, h.Key("watch-appear-not"), "other")
	h.Put(t, key, "one")
	got := <-answers
	if got.err != nil || string(got.doc.Text) != "one" {
		t.Errorf("got %+v, want the first version", got)
	}
}

func watchBehind(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key := h.Key("watch-behind")
	h.Put(t, key, "one")
	first := Eventually(t, w, key, "one")
	h.Put(t, key, "two")
	Eventually(t, w, key, "two")
	got := <-watch(t, w, key, first.Version)
	if got.err != nil || string(got.doc.Text) != "two" {
		t.Errorf("got %+v, want the second version", got)
	}
}

func watchOther(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key, other := h.Key("watch-own"), h.Key("watch-own-not")
	h.Put(t, key, "one")
	h.Put(t, other, "one")
	first := Eventually(t, w, key, "one")
	otherFirst := Eventually(t, w, other, "one")
	answers := watch(t, w, key, first.Version)
	otherAnswers := watch(t, w, other, otherFirst.Version)
	h.Put(t, other, "two")
	<-otherAnswers
	select {
	case got := <-answers:
		t.Errorf("a change of %q ended the watch of %q: %+v", other, key, got)
	default:
	}
}

func watchEnded(t *testing.T, h Harness, w store.Watcher) {
	t.Helper()
	key := h.Key("watch-ended")
	h.Put(t, key, "one")
	first := Eventually(t, w, key, "one")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := w.Watch(ctx, key, first.Version)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}
