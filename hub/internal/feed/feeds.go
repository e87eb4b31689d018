package feed

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dynamic-config.rs/fleet/hub/internal/policy"
)

// Subscriber is a Render.
type Subscriber struct {
	Cluster, Namespace, Name string
}

// Config holds what Feeds need.
type Config struct {
	// Wake is called when a subscriber's snapshot changed. It must not block; it may
	// call Feeds.
	Wake func(Subscriber)
	// MaxBytes of all documents and of what was made of them, as far as it is Sized;
	// DefaultMaxBytes when zero. A document that is given up for it is fetched again
	// when a subscriber needs it.
	MaxBytes int64
}

// Feeds fetch documents for their subscribers. They are safe for concurrent use.
type Feeds struct {
	wake                       func(Subscriber)
	kick                       chan struct{} // tells Run of waiting feeds
	fetches, watches, failures atomic.Uint64

	// mu guards what follows and what feed and source say it guards.
	mu       sync.Mutex
	ran      bool
	waiting  []*feed // not yet started by Run
	feeds    map[feedID]*feed
	sources  map[sourceID]*source
	clusters map[string]map[Subscriber]*feed
	onTurn   []func(sourceID string)
	budget   budget
}

// New answers Feeds without subscribers.
func New(cfg Config) *Feeds {
	return &Feeds{
		wake:     cfg.Wake,
		kick:     make(chan struct{}, 1),
		feeds:    map[feedID]*feed{},
		sources:  map[sourceID]*source{},
		clusters: map[string]map[Subscriber]*feed{},
		budget:   budget{most: cmp.Or(cfg.MaxBytes, DefaultMaxBytes)},
	}
}

// Run fetches until the context ends, then ends every goroutine, closes every
// reader and answers nil. It runs once; what was subscribed before is fetched
// when it starts.
func (f *Feeds) Run(ctx context.Context) error {
	f.mu.Lock()
	again := f.ran
	f.ran = true
	f.mu.Unlock()
	if again {
		return errors.New("feeds run once")
	}
	var group sync.WaitGroup
	defer f.closeAll()
	defer group.Wait()
	for {
		for _, d := range f.takeWaiting() {
			own, cancel := context.WithCancel(ctx)
			if !f.begin(d, cancel) {
				cancel()
				f.retire(d)
				continue
			}
			// The feed's release or the end of Run cancels it.
			group.Go(func() {
				defer f.retire(d)
				defer cancel()
				d.run(own)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.kick:
		}
	}
}

// Subscribe says which document the subscriber wants, at most how old (15 s when
// zero, never below the source's MinInterval), and answers what is known of it.
// Said again it changes nothing; another source, revision or key moves the
// subscriber. From then on it is woken when the snapshot changes.
func (f *Feeds) Subscribe(sub Subscriber, src Source, key policy.Key, interval time.Duration) Snapshot {
	id := feedID{sourceID{src.ID, src.Revision}, key}
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.feeds[id]
	if !ok {
		d = f.create(id, src)
	}
	subscribers, ok := f.clusters[sub.Cluster]
	if !ok {
		subscribers = map[Subscriber]*feed{}
		f.clusters[sub.Cluster] = subscribers
	}
	old := subscribers[sub]
	subscribers[sub] = d
	d.join(sub, effective(interval, src.Limits))
	// Left last, so that a source they share stays open.
	if old != nil && old != d {
		f.leave(sub, old)
	}
	return d.snapshot(sub)
}

// Release forgets a subscriber.
func (f *Feeds) Release(sub Subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	subscribers := f.clusters[sub.Cluster]
	d, ok := subscribers[sub]
	if !ok {
		return
	}
	f.leave(sub, d)
	delete(subscribers, sub)
	if len(subscribers) == 0 {
		delete(f.clusters, sub.Cluster)
	}
}

// ReleaseCluster forgets every subscriber of a cluster.
func (f *Feeds) ReleaseCluster(cluster string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sub, d := range f.clusters[cluster] {
		f.leave(sub, d)
	}
	delete(f.clusters, cluster)
}

// Refresh fetches the subscriber's document now, at the rate of its source, unless
// the same request was made before, and answers what is known of the document. The
// snapshot owes a fetch until one that began after the request has ended, well or
// not; then the subscriber is woken. Requests that come before one is sent are one.
func (f *Feeds) Refresh(sub Subscriber, request string) Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	d, ok := f.clusters[sub.Cluster][sub]
	if !ok {
		return Snapshot{}
	}
	d.request(sub, request)
	return d.snapshot(sub)
}

// Stats count what Feeds hold and did.
type Stats struct {
	// Sources, Feeds and Subscribers held now.
	Sources, Feeds, Subscribers int
	// Bytes of documents, and of what was made of them, held now.
	Bytes int64
	// Down is how many of the sources' stores are taken to be down.
	Down int
	// Fetches sent, Watches begun, and Failures of both, since the start. An absent
	// document is no failure.
	Fetches, Watches, Failures uint64
}

// Stats answers the counts.
func (f *Feeds) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	stats := Stats{
		Sources:  len(f.sources),
		Feeds:    len(f.feeds),
		Bytes:    f.budget.held,
		Fetches:  f.fetches.Load(),
		Watches:  f.watches.Load(),
		Failures: f.failures.Load(),
	}
	for _, s := range f.sources {
		if why, _ := s.gate.outage(); why != nil {
			stats.Down++
		}
	}
	for _, subscribers := range f.clusters {
		stats.Subscribers += len(subscribers)
	}
	return stats
}

// create is called with mu held.
func (f *Feeds) create(id feedID, src Source) *feed {
	s := f.sourceOf(src)
	s.feeds++
	d := &feed{
		id:          id,
		owner:       f,
		source:      s,
		nudge:       make(chan struct{}, 1),
		subscribers: map[Subscriber]time.Duration{},
		requests:    map[Subscriber]*request{},
	}
	f.feeds[id] = d
	f.waiting = append(f.waiting, d)
	select {
	case f.kick <- struct{}{}:
	default: // Run has not yet seen the last kick
	}
	return d
}

// leave is called with mu held.
func (f *Feeds) leave(sub Subscriber, d *feed) {
	if d.part(sub) > 0 {
		return
	}
	delete(f.feeds, d.id)
	f.budget.drop(d)
	d.released = true
	if d.cancel != nil {
		d.cancel()
	}
}

// retire lets go of a feed's source, when the feed's goroutine ended or will not
// begin.
func (f *Feeds) retire(d *feed) { f.giveBack(d.source) }

// closeAll closes what feeds hold that Run did not get to begin.
func (f *Feeds) closeAll() {
	f.mu.Lock()
	left := slices.Collect(maps.Values(f.sources))
	f.mu.Unlock()
	for _, s := range left {
		s.close()
	}
}

func (f *Feeds) takeWaiting() []*feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return waiting
}

// begin marks a feed as started, unless everybody left meanwhile.
func (f *Feeds) begin(d *feed, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.released {
		return false
	}
	d.cancel = cancel
	return true
}
