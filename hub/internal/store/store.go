package store

import (
	"context"
	"errors"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
)

// MaxDocumentBytes is the size of the largest document that is read; a larger
// one is refused with DocumentTooLarge.
const MaxDocumentBytes = 4 << 20

// ErrNotWatched says that a Watcher has no room for another watch. The caller polls
// the document and tries again later.
var ErrNotWatched = errors.New("no room for another watch")

// Document is one version of a document as its store holds it. It is shared:
// nobody changes it after it was returned. Either Text or Values is set.
type Document struct {
	// Version tells versions of one document apart: opaque, compared for equality
	// only, shown to people. Never empty.
	Version string
	// Format of Text where the store decides it; empty where the key's extension
	// or the Render does.
	Format v1alpha1.Format
	// Text is the document as text; at most MaxDocumentBytes.
	Text []byte
	// Values is a Kubernetes object read whole: data key to bytes.
	Values map[string][]byte
	// Secret documents never go into a ConfigMap.
	Secret bool
}

// Reader fetches documents from one store with one credential. It is safe for
// concurrent use.
type Reader interface {
	// Fetch reads a document once. It answers an *Error, or the context's error
	// when the context ends first.
	Fetch(ctx context.Context, key policy.Key) (*Document, error)
	// Close frees what the reader holds. No call may be under way or follow.
	Close() error
}

// Prober is a Reader of a store that can be asked whether it answers and accepts the
// credential, without reading a document.
type Prober interface {
	// Probe answers nil, an *Error, or the context's error.
	Probe(ctx context.Context) error
}

// Poller is a Reader that learns cheaply that a document stayed as it was.
type Poller interface {
	Reader
	// Poll is Fetch for a caller that holds a version: it answers last itself when
	// the document is that version still.
	Poll(ctx context.Context, key policy.Key, last *Document) (*Document, error)
}

// Watcher is a Reader of a store that tells of changes.
type Watcher interface {
	Reader
	// Watch blocks until the document's version is another than after, and answers
	// the document. An after of "" stands for an absent document: Watch then blocks
	// until there is one, and otherwise answers an *Error with DocumentNotFound as
	// soon as there is none. It answers any other *Error at once, ErrNotWatched
	// where it can hold no more watches, and the context's error when the context
	// ends first.
	Watch(ctx context.Context, key policy.Key, after string) (*Document, error)
}

// Multiplexer is a Reader that serves many calls with few requests, and makes
// requests of its own. It bounds the time of each, and asks the gate before each;
// nobody limits the calls.
type Multiplexer interface {
	Reader
	// Through gives the gate, before the first call.
	Through(gate Gate)
}
