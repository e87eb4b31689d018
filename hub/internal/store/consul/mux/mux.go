package mux

import (
	"context"
	"errors"
	"sync"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// maxGroups and maxReads bound the connections: both together leave room for
	// eight classes under the 200 that an agent grants one client.
	maxGroups = 16
	maxReads  = 8
	// settle lets new keys come together before they are divided anew.
	settle = time.Second
	// linger keeps what is known of a key until its next fetch or watch.
	linger = 10 * time.Second
	// refusedFor is how long a kind of request is not tried again that was refused.
	refusedFor = 10 * time.Minute
)

var (
	// ErrRefused says that the server does not serve this kind of request, or not
	// with this token.
	ErrRefused = errors.New("the request is not served")
	// ErrLags says that the answer is of a server that may be behind the leader.
	ErrLags = errors.New("the server lags")
	// ErrTooLarge says that the answer of a batch is larger than what is read.
	ErrTooLarge = errors.New("the answer is too large")
)

// Reading is what the store said of one document.
type Reading struct {
	Doc *store.Document
	// Err is the context's error or an *store.Error, which lacks Op and Key.
	Err error
	// Index of the store at which this was so, or a lower one; zero after a failure.
	Index uint64
}

func (r Reading) settled() bool {
	return r.Err == nil || store.IsAbsent(r.Err)
}

func (r Reading) version() string {
	if r.Doc == nil {
		return ""
	}
	return r.Doc.Version
}

// Query asks for the index at which something changed last.
type Query struct {
	// Prefix is what the keys begin with, or the only key when Exact.
	Prefix string
	Exact  bool
	// After is the index to wait from; zero for an answer at once.
	After uint64
}

// Requests are requests to the store, one a call. A document's version is the index
// of its change. All but an Index that waits see every change that any request saw
// before.
type Requests interface {
	// Get reads a document.
	Get(ctx context.Context, key policy.Key) Reading
	// Read reads documents, one Reading for each key in the same order. It answers
	// ErrRefused, ErrTooLarge, or an *store.Error that holds for all of them.
	Read(ctx context.Context, keys []policy.Key) ([]Reading, error)
	// Index answers the index to go on from. With one to wait from, it blocks until
	// something changes after that, for about a minute at most, and may answer ErrLags
	// instead. It answers ErrRefused where the token may not list.
	Index(ctx context.Context, q Query) (uint64, error)
}

// Mux serves fetches and watches. It is safe for concurrent use.
type Mux struct {
	requests Requests
	gate     store.Gate
	batch    int           // how many keys are read at once
	kick     chan struct{} // tells run to look again
	started  sync.Once
	stop     context.CancelFunc
	ended    sync.WaitGroup

	// mu guards what follows, and every entry and group.
	mu        sync.Mutex
	entries   map[policy.Key]*entry
	groups    map[string]*group
	queue     queue       // to be read
	reads     int         // batches under way
	entrances []*entrance // of them, those that wait for the gate
	clock     uint64      // counts requests and answers
	index     uint64      // the highest that the store answered
	era       int         // counts how often the index went back
	planAt    time.Time
	unsplit   time.Time // since when new keys wait for the next plan
	// Not tried before, because it was refused:
	listAt, batchAt time.Time
}

// New answers a Mux whose requests pass the gate.
func New(requests Requests, gate store.Gate) *Mux {
	return &Mux{
		requests: requests,
		gate:     gate,
		batch:    batchKeys,
		kick:     make(chan struct{}, 1),
		entries:  map[policy.Key]*entry{},
		groups:   map[string]*group{},
	}
}

// Through makes requests pass the gate; it comes before the first call.
func (m *Mux) Through(gate store.Gate) { m.gate = gate }

// Close ends everything under way. No call may be under way or follow.
func (m *Mux) Close() {
	if m.stop != nil {
		m.stop()
	}
	m.ended.Wait()
}

// Fetch reads a document with a request that is sent after the call.
func (m *Mux) Fetch(ctx context.Context, key policy.Key) Reading {
	return m.await(ctx, key, &waiter{answer: make(chan Reading, 1)})
}

// Watch blocks until the document's version is another than after ("" stands for an
// absent document), or there is an error: store.ErrNotWatched where the token may
// not list and every place for a single key is taken.
func (m *Mux) Watch(ctx context.Context, key policy.Key, after string) Reading {
	return m.await(ctx, key, &waiter{watch: true, after: after, answer: make(chan Reading, 1)})
}

func (m *Mux) await(ctx context.Context, key policy.Key, w *waiter) Reading {
	if ctx.Err() != nil {
		return Reading{Err: ctx.Err()}
	}
	m.started.Do(func() {
		// It serves all callers: the first one's end is not its end, and its priority
		// not that of what they ask for.
		own, stop := context.WithCancel(store.WithPriority(context.WithoutCancel(ctx), store.Periodic))
		m.stop = stop
		m.ended.Go(func() { m.run(own) })
	})
	w.urgency = store.PriorityOf(ctx)
	e := m.join(key, w)
	select {
	case got := <-w.answer:
		return got
	case <-ctx.Done():
		m.part(e, w)
		return Reading{Err: ctx.Err()}
	}
}

// run starts reads and groups when they are due. Close ends it.
func (m *Mux) run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for {
		timer := time.NewTimer(m.step(ctx, &tasks))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step does what is due and answers when to look again.
func (m *Mux) step(ctx context.Context, tasks *sync.WaitGroup) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Those that wait for the gate will take what is queued.
	for m.reads < maxReads && len(m.entrances)*m.batch < m.queue.len() {
		m.reads++
		e := m.queueUp()
		tasks.Go(func() { m.read(ctx, e) })
	}
	if !m.planAt.IsZero() && !time.Now().Before(m.planAt) {
		for _, g := range m.replan() {
			own, cancel := context.WithCancel(ctx)
			g.cancel = cancel
			tasks.Go(func() {
				defer cancel()
				m.follow(own, g)
			})
		}
	}
	if m.planAt.IsZero() {
		return time.Hour
	}
	return time.Until(m.planAt)
}

// planSoon has the keys divided anew: at once while each has a query of its own,
// since then no other query is disturbed. Called with mu held.
func (m *Mux) planSoon() {
	now := time.Now()
	if m.unsplit.IsZero() {
		m.unsplit = now
	}
	m.planAt = now
	if len(m.entries) > maxGroups {
		m.planAt = now.Add(min(settle, time.Until(m.unsplit.Add(5*settle))))
	}
	m.look()
}

// look has run look again.
func (m *Mux) look() {
	select {
	case m.kick <- struct{}{}:
	default: // the last kick was not seen yet
	}
}
