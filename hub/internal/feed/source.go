package feed

import (
	"context"
	"sync"
	"time"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// Limits bound what is asked of a store on behalf of one class. Zero values take
// the defaults.
type Limits struct {
	// RequestsPerSecond at most; 20 by default.
	RequestsPerSecond int
	// Burst above that rate; 40 by default.
	Burst int
	// Concurrency is how many fetches are under way at most, watches aside; 8 by
	// default.
	Concurrency int
	// MinInterval is the shortest interval of a document; a second by default.
	MinInterval time.Duration
}

// Source is a class with one credential.
type Source struct {
	// ID names the class: kind/name, or kind/namespace/name.
	ID string
	// Revision changes with the class and its credential, which means a new reader.
	Revision string
	// Limits of the class.
	Limits Limits
	// Open opens the reader; called when the first document is fetched, and again
	// after it failed. Its errors are like those of a fetch.
	Open func() (store.Reader, error)
}

// rewatch is how long no document of a source is newly watched after the store had
// no room for one more: asking costs a place in the class's rate.
const rewatch = time.Minute

type sourceID struct{ id, revision string }

// source is what the feeds of one Source share. It is the store.Gate of its reader.
type source struct {
	id    sourceID
	open  func() (store.Reader, error)
	owner *Feeds
	gate  *gate

	// feeds counts the feeds that use the source; guarded by Feeds.mu.
	feeds int

	// mu guards what follows.
	mu     sync.Mutex
	reader store.Reader // nil until opened
	polled time.Time    // no new watch before
}

var _ store.Gate = (*source)(nil)

func newSource(src Source, owner *Feeds) *source {
	return &source{id: sourceID{src.ID, src.Revision}, open: src.Open, owner: owner, gate: newGate(src.Limits)}
}

// get answers the reader, opened if need be.
func (s *source) get() (store.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != nil {
		return s.reader, nil
	}
	reader, err := s.open()
	if err != nil {
		return nil, err
	}
	if many, ok := reader.(store.Multiplexer); ok {
		many.Through(s)
	}
	s.reader = reader
	return reader, nil
}

// close closes the reader, if it was opened.
func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate.close()
	if s.reader == nil {
		return
	}
	// Nobody is left who could do anything about the error.
	_ = s.reader.Close()
	s.reader = nil
}

// Admit waits until a request may be sent.
func (s *source) Admit(ctx context.Context) (store.Done, error) { return s.wait(ctx, false) }

// Enter waits until a request may be sent that takes one of the places.
func (s *source) Enter(ctx context.Context) (store.Done, error) { return s.wait(ctx, true) }

func (s *source) wait(ctx context.Context, place bool) (store.Done, error) {
	t, err := s.gate.wait(ctx, place)
	if err != nil {
		return nil, err
	}
	return func(err error) {
		s.spread(s.gate.done(t, err))
	}, nil
}

// spread tells the feeds what they have to know.
func (s *source) spread(got news) {
	if got.hushed {
		s.owner.hush(s)
	}
	switch got.turned {
	case stays: // nothing to tell
	case down:
		s.owner.suspend(s)
		s.owner.turned(s)
	case up:
		s.owner.resume(s)
		s.owner.turned(s)
	}
}

// isCrowded says whether the store had no room for another watch lately.
func (s *source) isCrowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.polled)
}

func (s *source) setCrowded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled = time.Now().Add(rewatch)
}

// sleep waits, or answers the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
