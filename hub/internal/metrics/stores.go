package metrics

import (
	"cmp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// resultOK is the result of a request that brought a document, or word that nothing
// changed; the others are reasons of the condition Fetched.
const resultOK = "ok"

// resultUnknown is that of an error without a reason.
const resultUnknown = "Other"

// Stores counts what is asked of stores, by class.
type Stores struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	// mu guards known: the classes that have series.
	mu    sync.Mutex
	known map[string]bool
}

var _ feed.Observer = (*Stores)(nil)

// NewStores returns Stores that were asked nothing.
func NewStores() *Stores {
	return &Stores{
		known: map[string]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dynamicconfig_hub_store_requests_total",
			Help: "Fetches of documents and waits for their next version that ended, by class and result: ok, or the reason.",
		}, []string{"class", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dynamicconfig_hub_store_fetch_duration_seconds",
			Help:    "How long a store took for a fetch, by class.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 7),
		}, []string{"class"}),
	}
}

// Answered is feed.Observer's.
func (s *Stores) Answered(class string, err error) {
	result := resultOK
	if err != nil {
		result = cmp.Or(store.ReasonOf(err), resultUnknown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[class] = true
	s.requests.WithLabelValues(class, result).Inc()
}

// Fetched is feed.Observer's.
func (s *Stores) Fetched(class string, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[class] = true
	s.seconds.WithLabelValues(class).Observe(took.Seconds())
}

// keep deletes the series of the classes that are not there any more.
func (s *Stores) keep(classes map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for class := range s.known {
		if classes[class] {
			continue
		}
		labels := prometheus.Labels{"class": class}
		s.requests.DeletePartialMatch(labels)
		s.seconds.Delete(labels)
		delete(s.known, class)
	}
}
