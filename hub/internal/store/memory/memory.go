// Package memory is a store in memory, for tests of what uses stores. It passes
// the same suite as the real ones, counts what it is asked for, and fails when
// told to.
package memory

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// Store holds documents in memory. It is safe for concurrent use.
type Store struct {
	// mu guards everything below.
	mu      sync.Mutex
	docs    map[policy.Key]*store.Document
	version int
	changed chan struct{} // closed and replaced at every change
	failure error
	fetches map[policy.Key]int
	closed  bool
}

var (
	_ store.Watcher = (*Store)(nil)
	_ store.Prober  = (*Store)(nil)
)

// New answers an empty store.
func New() *Store {
	return &Store{
		docs:    map[policy.Key]*store.Document{},
		changed: make(chan struct{}),
		fetches: map[policy.Key]int{},
	}
}

// Put writes a new version of a document.
func (s *Store) Put(key policy.Key, text string) {
	s.PutDocument(key, store.Document{Text: []byte(text)})
}

// PutDocument writes a new version of a document; its Version is replaced.
func (s *Store) PutDocument(key policy.Key, doc store.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	doc.Version = strconv.Itoa(s.version)
	s.docs[key] = &doc
	s.announce()
}

// Delete removes a document.
func (s *Store) Delete(key policy.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.docs, key)
	s.announce()
}

// Fail makes every call under way and to come answer err; nil heals the store.
func (s *Store) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	s.announce()
}

// Probe answers what Fail set.
func (s *Store) Probe(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.failure
}

// Fetches counts the calls of Fetch for a key.
func (s *Store) Fetches(key policy.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches[key]
}

// Closed says whether Close was called.
func (s *Store) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Fetch reads a document.
func (s *Store) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches[key]++
	return s.read("fetch", key)
}

// Watch blocks until the document's version is another than after.
func (s *Store) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	for {
		s.mu.Lock()
		doc, err := s.read("watch", key)
		changed := s.changed
		s.mu.Unlock()
		switch {
		case err == nil && doc.Version != after:
			return doc, nil
		case err != nil && (after != "" || !store.IsAbsent(err)):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Close marks the store as closed; it keeps its documents.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// read is called with mu held.
func (s *Store) read(op string, key policy.Key) (*store.Document, error) {
	if s.failure != nil {
		return nil, s.failure
	}
	doc, ok := s.docs[key]
	if !ok {
		return nil, &store.Error{
			Reason: v1alpha1.ReasonDocumentNotFound, Op: op, Key: string(key), Err: errors.New("absent"),
		}
	}
	return doc, nil
}

// announce is called with mu held.
func (s *Store) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
