// Package storetest is the suite that every store passes: what package store
// promises, tried on the real server behind it.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// Patience is how long the suite waits for something that must happen. It only
// bounds how long a broken store takes to fail.
const Patience = 30 * time.Second

// Harness is a store and a way to write to it past the store.
type Harness struct {
	// Reader under test. The suite closes it. The cases of Watch run when it is a
	// store.Watcher.
	Reader store.Reader
	// Key answers the key of a document called name (lower-case letters and -).
	Key func(name string) policy.Key
	// Put writes a document.
	Put func(t *testing.T, key policy.Key, text string)
	// Holds is what a document reads as that was put as text; the text itself when
	// nil.
	Holds func(text string) string
	// Delete removes a document.
	Delete func(t *testing.T, key policy.Key)
	// Awkward are keys with blanks, letters beyond ASCII and the like, as far as
	// the server takes them.
	Awkward []policy.Key
	// Secret says whether every document counts as secret.
	Secret bool
}

// eventually waits until a document holds what was put.
func (h Harness) eventually(t *testing.T, key policy.Key, text string) *store.Document {
	t.Helper()
	return Eventually(t, h.Reader, key, h.holds(text))
}

func (h Harness) holds(text string) string {
	if h.Holds == nil {
		return text
	}
	return h.Holds(text)
}

// Run runs the suite. Each case gets a harness of its own; documents of one case
// may still be there in the next.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	cases := map[string]func(*testing.T, Harness){
		"a document is fetched as it was written":         fetches,
		"an absent document is absent":                    absent,
		"an empty document is a document":                 emptyDocument,
		"the version moves only when the document does":   version,
		"a deleted document is absent":                    deleted,
		"an awkward key reads its own document":           awkward,
		"a fetch of an ended context ends with its error": endedFetch,
	}
	polled := map[string]func(*testing.T, Harness, store.Poller){
		"a poll answers what is held until it moves": polls,
	}
	watched := map[string]func(*testing.T, Harness, store.Watcher){
		"a watch sees a change":                           watchChange,
		"a watch sees a deletion":                         watchDeletion,
		"a watch sees an absent document appear":          watchAppear,
		"a watch behind the current version ends at once": watchBehind,
		"a watch of another document sees nothing":        watchOther,
		"an ended context ends a watch":                   watchEnded,
	}
	run := func(name string, test func(*testing.T, Harness)) {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			t.Cleanup(func() {
				if err := h.Reader.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test(t, h)
		})
	}
	for name, test := range cases {
		run(name, test)
	}
	runFor(t, run, newHarness, polled)
	runFor(t, run, newHarness, watched)
}

// runFor runs the cases of what only some stores can. A store says so with an
// assertion of the interface beside its type, so none loses its cases unseen.
func runFor[Can any](
	t *testing.T, run func(string, func(*testing.T, Harness)), newHarness func(*testing.T) Harness,
	cases map[string]func(*testing.T, Harness, Can),
) {
	t.Helper()
	probe := newHarness(t)
	_, can := probe.Reader.(Can)
	if err := probe.Reader.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if !can {
		return
	}
	for name, test := range cases {
		run(name, func(t *testing.T, h Harness) {
			t.Helper()
			reader, ok := h.Reader.(Can)
			if !ok {
				t.Fatalf("%T cannot do what the reader before it could", h.Reader)
			}
			test(t, h, reader)
		})
	}
}

func fetches(t *testing.T, h Harness) {
	t.Helper()
	key := h.Key("fetched")
	h.Put(t, key, "a: 1\n")
	doc := h.eventually(t, key, "a: 1\n")
	if doc.Version == "" {
		t.Error("the document has no version")
	}
	if doc.Secret != h.Secret {
		t.Errorf("secret is %t, want %t", doc.Secret, h.Secret)
	}
	if doc.Values != nil {
		t.Error("text and values are both set")
	}
}

func absent(t *testing.T, h Harness) {
	t.Helper()
	doc, err := h.Reader.Fetch(t.Context(), h.Key("never-written"))
	wantAbsent(t, doc, err)
}

func emptyDocument(t *testing.T, h Harness) {
	t.Helper()
	key := h.Key("empty")
	h.Put(t, key, "")
	h.eventually(t, key, "")
}

func version(t *testing.T, h Harness) {
	t.Helper()
	key := h.Key("version")
	h.Put(t, key, "one")
	first := h.eventually(t, key, "one")
	if again := h.eventually(t, key, "one"); again.Version != first.Version {
		t.Errorf("version went from %s to %s while nothing moved", first.Version, again.Version)
	}
	h.Put(t, key, "two")
	if moved := h.eventually(t, key, "two"); moved.Version == first.Version {
		t.Errorf("version stayed %s while the document moved", first.Version)
	}
}

func deleted(t *testing.T, h Harness) {
	t.Helper()
	key := h.Key("deleted")
	h.Put(t, key, "text")
	h.eventually(t, key, "text")
	h.Delete(t, key)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		doc, err := h.Reader.Fetch(ctx, key)
		if err == nil && ctx.Err() == nil {
			continue // a store that follows its server may be a moment behind
		}
		wantAbsent(t, doc, err)
		return
	}
}

func awkward(t *testing.T, h Harness) {
	t.Helper()
	for _, key := range h.Awkward {
		if canonical, err := policy.CanonicalKey(string(key)); err != nil || canonical != key {
			t.Fatalf("key %q is not canonical: %v", key, err)
		}
		h.Put(t, key, "text of "+string(key))
	}
	for _, key := range h.Awkward {
		h.eventually(t, key, "text of "+string(key))
	}
}

func endedFetch(t *testing.T, h Harness) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if doc, err := h.Reader.Fetch(ctx, h.Key("ended")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v; want the context's error", doc, err)
	}
}

func polls(t *testing.T, h Harness, poller store.Poller) {
	t.Helper()
	key := h.Key("polled")
	h.Put(t, key, "one")
	first := h.eventually(t, key, "one")
	if again, err := poller.Poll(t.Context(), key, first); err != nil || again != first {
		t.Errorf("got another document %t, error %v; want the one that is held", again != first, err)
	}
	h.Put(t, key, "two")
	second, err := poller.Poll(t.Context(), key, first)
	if err != nil || string(second.Text) != h.holds("two") {
		t.Fatalf("got %+v, %v; want the second version", second, err)
	}
	h.Delete(t, key)
	if gone, err := poller.Poll(t.Context(), key, second); gone != nil || !store.IsAbsent(err) {
		t.Errorf("got document %t, error %v after the deletion", gone != nil, err)
	}
	h.Put(t, key, "two")
	fresh, err := poller.Poll(t.Context(), key, second)
	if err != nil || string(fresh.Text) != h.holds("two") {
		t.Errorf("got %+v, %v; want the document that was written anew", fresh, err)
	}
}

// Eventually fetches until the document holds text, and answers it.
func Eventually(t *testing.T, r store.Reader, key policy.Key, text string) *store.Document {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		doc, err := r.Fetch(ctx, key)
		switch {
		case err == nil && string(doc.Text) == text:
			return doc
		case ctx.Err() != nil:
			t.Fatalf("fetch %q: %v; the document never held what was written", key, err)
		case err != nil && !store.IsAbsent(err):
			t.Fatalf("fetch %q: %v", key, err)
		}
	}
}

func wantAbsent(t *testing.T, doc *store.Document, err error) {
	t.Helper()
	if doc != nil || store.ReasonOf(err) != v1alpha1.ReasonDocumentNotFound {
		t.Errorf("got document %t, error %v; want %s", doc != nil, err, v1alpha1.ReasonDocumentNotFound)
	}
}
