package controller

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// answer is the hub's latest word on a Render. Exactly one of deliver, current
// and refusal is set.
type answer struct {
	ref        *fleetv1.RenderRef
	generation int64
	deliver    *fleetv1.Deliver
	current    *fleetv1.Current
	refusal    *fleetv1.Refusal
	// reply answers deliver.
	reply func(*fleetv1.DeliveryResult)
}

// result answers a delivery; it does nothing for other answers.
func (a *answer) result(code fleetv1.DeliveryResult_Code, reason, message string) {
	if a.deliver == nil {
		return
	}
	result := &fleetv1.DeliveryResult{
		Nonce: a.deliver.GetNonce(), Ref: a.ref, Generation: a.generation, Code: code, Reason: reason, Message: message,
	}
	if code == fleetv1.DeliveryResult_CODE_APPLIED || code == fleetv1.DeliveryResult_CODE_UNCHANGED {
		result.ContentId = a.deliver.GetContentId()
	}
	a.reply(result)
}

// written is what the last apply left. It is believed while the cache does not
// show it, and for as long as the target stays exactly that: where the API server
// keeps something else than was applied, as a mutating admission policy makes it,
// the target would read as harmed for ever and be applied for ever.
type written struct {
	uid             types.UID
	generation      int64
	contentID       []byte
	resourceVersion string
	// until is when to believe the cache again whatever it shows: the target may
	// have been changed and gone before the cache saw it. Zero once it was shown.
	until time.Time
}

// holds says whether a cached target, which may be nil, is still to be taken for
// what was written.
func (w *written) holds(target *metav1.PartialObjectMetadata, now time.Time) bool {
	if target != nil && target.ResourceVersion == w.resourceVersion {
		w.until = time.Time{}
		return true
	}
	waiting := !w.until.IsZero() && !now.After(w.until)
	return waiting && (target == nil || !notOlder(target.ResourceVersion, w.resourceVersion))
}

// notOlder says whether resource version a is at least b; what cannot be compared
// is not older.
func notOlder(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order >= 0
}

// failure is a delivery that was not applied.
type failure struct {
	// count in a row.
	count int
	// retryAt is when to ask the hub again; zero once asked.
	retryAt time.Time
	// target is the resource version of the cached target then: when that moves,
	// the cause may be gone.
	target string
	// fought says that somebody undoes every repair: then a target that moves is the
	// cause, and no reason to ask.
	fought bool
}

// entry is what is known of one Render beyond the API server.
type entry struct {
	answer *answer // guarded by entries.mu

	// verdict is an outcome that is not in the status yet, reported the resource
	// version that the last write of the status gave the Render. Both belong to
	// the one worker that has the Render.
	verdict  *verdict
	reported string
	// unwritten is how often in a row the status, or a former target, could not be
	// written; the worker's too.
	unwritten int

	mu      sync.Mutex // guards what follows: Prime reads it beside the worker
	written *written
	failure *failure
	repairs repairs
	// seen is when the Render was first looked at without an answer; zero before.
	seen time.Time
}

// entries holds an entry for each Render that has one.
type entries struct {
	mu  sync.Mutex // guards all, and answer in every entry
	all map[types.NamespacedName]*entry
}

// of returns the entry of a Render, making it when there is none.
func (e *entries) of(key types.NamespacedName) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ofLocked(key)
}

func (e *entries) ofLocked(key types.NamespacedName) *entry {
	if e.all[key] == nil {
		e.all[key] = &entry{}
	}
	return e.all[key]
}

// put keeps an answer, in place of an earlier one that was not looked at.
func (e *entries) put(key types.NamespacedName, a *answer) {
	e.mu.Lock()
	kept := e.ofLocked(key)
	before := kept.answer
	kept.answer = a
	e.mu.Unlock()
	if before != nil {
		before.result(fleetv1.DeliveryResult_CODE_SUPERSEDED, "", "")
	}
}

// take returns the answer of a Render and forgets it, so that content is not kept.
func (e *entries) take(key types.NamespacedName) *answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := e.all[key]
	if kept == nil {
		return nil
	}
	a := kept.answer
	kept.answer = nil
	return a
}

// drop forgets a Render.
func (e *entries) drop(key types.NamespacedName) {
	if a := e.take(key); a != nil {
		a.result(fleetv1.DeliveryResult_CODE_SUPERSEDED, "", "")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, key)
}

// dropAnswers forgets all answers: those of a session that is over are not used.
func (e *entries) dropAnswers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, kept := range e.all {
		kept.answer = nil
	}
}
