package registry

import (
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
)

// refusalEvery is how often at most a cluster is said to have been refused: whoever can
// reach the hub may claim its name.
const refusalEvery = time.Minute

// Refusals tell in events about SpokeClusters which evidence was refused, so that who
// manages a cluster need not read the hub's log. Nothing that the peer sent is in them. A
// nil one tells nothing. It is safe for concurrent use.
type Refusals struct {
	// Recorder makes the events.
	Recorder events.EventRecorder

	mu   sync.Mutex           // guards last
	last map[string]time.Time // by cluster, when it was told; older than refusalEvery counts as none
}

// tell makes an event of a refusal at a time, unless the cluster had one just now.
func (r *Refusals) tell(c *v1alpha1.SpokeCluster, err error, now time.Time) {
	var refusal *identity.Error
	if r == nil || !errors.As(err, &refusal) || !r.due(c.Name, now) {
		return
	}
	r.Recorder.Eventf(c, nil, corev1.EventTypeWarning, refusal.Reason, "Enrol", "%s", err)
}

// due says whether a cluster may be told of, and counts it as told of.
func (r *Refusals) due(cluster string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.last, func(_ string, told time.Time) bool { return now.Sub(told) >= refusalEvery })
	if _, told := r.last[cluster]; told {
		return false
	}
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	r.last[cluster] = now
	return true
}

// joins says whether a join token of the cluster waits for its use. Then a token that
// does not prove the cluster is no news: the agent sends the join token after it.
func joins(c *v1alpha1.SpokeCluster) bool {
	return c.Spec.JoinToken != nil && c.Status.RedeemedJoinToken != c.Spec.JoinToken.SHA256
}
