package feed

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

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
	id       sourceID
	open     func() (store.Reader, error)
	limiter  *rate.Limiter
	fetching chan struct{} // one place for each fetch under way

	// feeds counts the feeds that use the source; guarded by Feeds.mu.
	feeds int

	// mu guards what follows.
	mu     sync.Mutex
	reader store.Reader // nil until opened
	quiet  time.Time    // no request before
	polled time.Time    // no new watch before
}

func newSource(src Source) *source {
	limit := cmp.Or(max(src.Limits.RequestsPerSecond, 0), 20)
	burst := cmp.Or(max(src.Limits.Burst, 0), 40)
	return &source{
		id:       sourceID{src.ID, src.Revision},
		open:     src.Open,
		limiter:  rate.NewLimiter(rate.Limit(limit), burst),
		fetching: make(chan struct{}, cmp.Or(max(src.Limits.Concurrency, 0), 8)),
	}
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
	if s.reader == nil {
		return
	}
	// Nobody is left who could do anything about the error.
	_ = s.reader.Close()
	s.reader = nil
}

// begin lets a fetch begin and bounds it; what it answers ends it. A multiplexer
// does both for its requests.
func (s *source) begin(ctx context.Context, reader store.Reader) (context.Context, func(), error) {
	if _, ok := reader.(store.Multiplexer); ok {
		return ctx, func() {}, ctx.Err()
	}
	if err := s.Enter(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, fetchTimeout)
	return bounded, func() {
		cancel()
		s.Leave()
	}, nil
}

// beginWatch lets a watch begin.
func (s *source) beginWatch(ctx context.Context, reader store.Reader) error {
	if _, ok := reader.(store.Multiplexer); ok {
		return ctx.Err()
	}
	return s.Admit(ctx)
}

// Admit waits until the source may send a request: not before the store's
// Retry-After, and at the class's rate.
func (s *source) Admit(ctx context.Context) error {
	for {
		if err := sleep(ctx, time.Until(s.quietUntil())); err != nil {
			return err
		}
		if err := s.limiter.Wait(ctx); err != nil {
			return cmp.Or(ctx.Err(), ErrBusy)
		}
		// The store may have asked for quiet while this request waited its turn.
		if !s.quietUntil().After(time.Now()) {
			return nil
		}
	}
}

// Enter waits for a place among the fetches under way, then for admission.
func (s *source) Enter(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.fetching <- struct{}{}:
	}
	if err := s.Admit(ctx); err != nil {
		s.Leave()
		return err
	}
	return nil
}

// Leave frees the place that Enter took.
func (s *source) Leave() {
	<-s.fetching
}

func (s *source) quietUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet
}

// Hush lets no request start before the time; it never shortens a quiet.
func (s *source) Hush(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.quiet) {
		s.quiet = until
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
