package mirror

import (
	"k8s.io/client-go/util/workqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// NewFairQueue is a controller's queue that hands requests out round robin over
// clusters, so that one cluster's thousands do not delay another's one. Dropping of
// duplicates, delays and rate limits stay client-go's.
func NewFairQueue(name string, limiter workqueue.TypedRateLimiter[mcreconcile.Request]) workqueue.TypedRateLimitingInterface[mcreconcile.Request] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[mcreconcile.Request]{
		Name: name,
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[mcreconcile.Request]{
			Name: name,
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[mcreconcile.Request]{
				Name:  name,
				Queue: &fairQueue{byCluster: map[string][]mcreconcile.Request{}},
			}),
		}),
	})
}

// fairQueue orders requests; client-go calls it under its own lock.
type fairQueue struct {
	byCluster map[string][]mcreconcile.Request
	turn      []string // clusters with work, the next one first
	length    int
}

var _ workqueue.Queue[mcreconcile.Request] = (*fairQueue)(nil)

// Touch does nothing: a request that comes again keeps its place.
func (q *fairQueue) Touch(mcreconcile.Request) {}

// Len is the number of requests.
func (q *fairQueue) Len() int { return q.length }

// Push adds a request behind those of its cluster.
func (q *fairQueue) Push(r mcreconcile.Request) {
	c := r.ClusterName.String()
	requests, waiting := q.byCluster[c]
	if !waiting {
		q.turn = append(q.turn, c)
	}
	q.byCluster[c] = append(requests, r)
	q.length++
}

// Pop takes the first request of the cluster whose turn it is.
func (q *fairQueue) Pop() mcreconcile.Request {
	c := q.turn[0]
	q.turn = q.turn[1:]
	requests := q.byCluster[c]
	r := requests[0]
	if len(requests) == 1 {
		delete(q.byCluster, c)
	} else {
		requests[0] = mcreconcile.Request{} // let go of the strings
		q.byCluster[c] = requests[1:]
		q.turn = append(q.turn, c)
	}
	q.length--
	return r
}
