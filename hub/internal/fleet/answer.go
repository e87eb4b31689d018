package fleet

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// ID names a Render inside one cluster.
type ID struct {
	Namespace, Name string
}

// Spec is the part of a Render's spec that an answer depends on.
type Spec struct {
	ID         ID
	UID        string
	Generation int64
	// Class the Render uses, by its ID; for counting.
	Class string
	// SyncRequestedAt is the value of the annotation that asks for a fetch now.
	SyncRequestedAt string
	// Suspended Renders are owed no answer; for people.
	Suspended bool
	// Have identifies the content the target holds unharmed; nil for none.
	Have []byte
}

// Answer is the latest word on one Render: content or a refusal.
type Answer struct {
	// UID and Generation are those of the spec that is answered.
	UID        string
	Generation int64
	// HandledSync echoes the spec's SyncRequestedAt.
	HandledSync string
	// Content is what the target should hold; nil when refused.
	Content *Content
	// Refusal is why there is no content; nil otherwise.
	Refusal *Refusal
	// Cause is what the answer goes back to. It is not told to the cluster.
	Cause Cause
}

// remembered is the answer without the content's data: a session that keeps what it told
// keeps no document.
func (a *Answer) remembered() *Answer {
	if a.Content == nil {
		return a
	}
	kept := *a
	kept.Content = &Content{ID: a.Content.ID, SourceVersion: a.Content.SourceVersion}
	return &kept
}

// Cause is what an answer goes back to, for metrics and traces.
type Cause struct {
	// Changed is when the hub learned of the version of the document that the answer
	// is about; zero when the answer has another cause.
	Changed time.Time
	// Span that made the answer; not valid when it is not traced.
	Span trace.SpanContext
}

// Content is a rendered document. It is shared between clusters and never changed.
type Content struct {
	// ID is the keyed hash of Data; see Hasher.
	ID []byte
	// SourceVersion is the document's version in its store, for people.
	SourceVersion string
	// Data holds the data keys and values of the ConfigMap or Secret.
	Data map[string][]byte
}

// Size is the number of bytes in keys and values.
func (c *Content) Size() int {
	n := 0
	for k, v := range c.Data {
		n += len(k) + len(v)
	}
	return n
}

// Refusal is why a Render gets no content; its target keeps what it has.
type Refusal struct {
	// ReadyReason is the reason of the Render's Ready condition.
	ReadyReason string
	// CauseCondition is Fetched or Applied, or empty where Ready says it all.
	CauseCondition string
	// CauseReason is the reason on that condition.
	CauseReason string
	// Message is for people: kinds, places, paths and sizes, never a value.
	Message string
}

// equal says whether two answers tell the cluster the same.
func (a *Answer) equal(b *Answer) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.UID != b.UID || a.Generation != b.Generation || a.HandledSync != b.HandledSync {
		return false
	}
	if a.Content == nil || b.Content == nil {
		return a.Content == nil && b.Content == nil && *a.Refusal == *b.Refusal
	}
	return bytes.Equal(a.Content.ID, b.Content.ID)
}

// Hasher makes content IDs under a key that all replicas of a hub share, so that
// the ID in an annotation is no oracle for guessing a short secret.
type Hasher struct {
	key []byte
}

// NewHasher returns a Hasher for a key of at least 32 random bytes.
func NewHasher(key []byte) Hasher { return Hasher{key: slices.Clone(key)} }

// ContentID is the HMAC-SHA-256 of the data in the order of its keys, each key and
// value behind its length.
func (h Hasher) ContentID(data map[string][]byte) []byte {
	mac := hmac.New(sha256.New, h.key)
	var size [8]byte
	write := func(b []byte) {
		binary.BigEndian.PutUint64(size[:], uint64(len(b)))
		mac.Write(size[:])
		mac.Write(b)
	}
	for _, k := range slices.Sorted(maps.Keys(data)) {
		write([]byte(k))
		write(data[k])
	}
	return mac.Sum(nil)
}
