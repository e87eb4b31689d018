package hub

import (
	"sync"
	"time"

	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/mirror"
)

// newFleet follows the documents of a cluster that lost its session for a while, so
// that a short interruption costs the stores nothing. A cluster that stays away, for it
// is with another replica, costs no memory then.
func newFleet(cfg Config, feeds *feed.Feeds, mirrors *mirror.Provider) *fleet.Fleet {
	var clusters *fleet.Fleet
	pending := &releases{after: cfg.ReleaseAfter, latest: map[string]*release{}}
	clusters = fleet.New(fleet.Config{Detached: func(cluster string) {
		left := mirrors.Version(cluster)
		pending.start(cluster, func() {
			clusters.IfDisconnected(cluster, func() { feeds.ReleaseCluster(cluster) })
			if !clusters.Connected(cluster) { // a session from now on has another version
				mirrors.Empty(cluster, left)
			}
		})
	}})
	return clusters
}

// releases are what is to be let go of after a while, once for each cluster: the while
// counts from the last session that ended.
type releases struct {
	after time.Duration

	mu     sync.Mutex          // guards latest
	latest map[string]*release // by cluster
}

type release struct{ timer *time.Timer }

// start has do called after a while, in place of what was to be called for the cluster.
func (r *releases) start(cluster string, do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier, ok := r.latest[cluster]; ok {
		earlier.timer.Stop()
	}
	own := &release{}
	own.timer = time.AfterFunc(r.after, func() {
		if r.take(cluster, own) {
			do()
		}
	})
	r.latest[cluster] = own
}

// take forgets a release that is due, and reports false when another took its place.
func (r *releases) take(cluster string, due *release) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest[cluster] != due {
		return false
	}
	delete(r.latest, cluster)
	return true
}
