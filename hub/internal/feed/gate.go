package feed

import (
	"cmp"
	"context"
	"errors"
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

// gate lets the requests of one source pass: in the order of its queue, at the
// source's rate, so many at once, and not while the store wants quiet.
type gate struct {
	limiter *rate.Limiter

	// mu guards what follows.
	mu     sync.Mutex
	queue  queue
	places int         // that are free
	quiet  time.Time   // nothing passes before
	timer  *time.Timer // looks again; nil before it was needed
}

func newGate(limits Limits) *gate {
	limit := cmp.Or(max(limits.RequestsPerSecond, 0), 20)
	burst := cmp.Or(max(limits.Burst, 0), 40)
	return &gate{
		limiter: rate.NewLimiter(rate.Limit(limit), burst),
		places:  cmp.Or(max(limits.Concurrency, 0), 8),
	}
}

// wait waits until a request of the context's priority may be sent. It answers
// ErrBusy at once when that cannot be before the context's deadline.
func (g *gate) wait(ctx context.Context, place bool) (*turn, error) {
	t := &turn{priority: store.PriorityOf(ctx), place: place, passed: make(chan struct{})}
	if err := g.join(ctx, t); err != nil {
		return nil, err
	}
	select {
	case <-t.passed:
		return t, nil
	case <-ctx.Done():
		g.withdraw(t)
		return nil, ctx.Err()
	}
}

func (g *gate) join(ctx context.Context, t *turn) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if deadline, ok := ctx.Deadline(); ok && g.earliest(t.priority).After(deadline) {
		return ErrBusy
	}
	g.queue.join(t)
	g.pass()
	return nil
}

// withdraw takes a turn back, also one that was let pass at the same moment.
func (g *gate) withdraw(t *turn) {
	g.mu.Lock()
	waited := g.queue.leave(t)
	g.mu.Unlock()
	if !waited {
		g.done(t, context.Canceled)
	}
}

// done ends a request that was let pass; true when the store asked for quiet.
func (g *gate) done(t *turn, err error) (hushed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place {
		g.places++
	}
	if failure, ok := errors.AsType[*store.Error](err); ok && failure.RetryAfter > 0 {
		hushed = true
		if until := time.Now().Add(failure.RetryAfter); until.After(g.quiet) {
			g.quiet = until
		}
	}
	g.pass()
	return hushed
}

// earliest is the moment before which a new turn of the priority surely waits.
// Called with mu held.
func (g *gate) earliest(p store.Priority) time.Time {
	now := time.Now()
	missing := float64(g.queue.before(p)+1) - g.limiter.TokensAt(now)
	paid := now.Add(time.Duration(missing / float64(g.limiter.Limit()) * float64(time.Second)))
	if g.quiet.After(paid) {
		return g.quiet
	}
	return paid
}

// pass lets go who may, and looks again when somebody may later. Called with mu held.
func (g *gate) pass() {
	for {
		t := g.queue.next(g.places > 0, true)
		if t == nil {
			return // until somebody comes, or a place is free
		}
		if wait := g.shut(); wait > 0 {
			g.later(wait)
			return
		}
		g.queue.leave(t)
		if t.place {
			g.places--
		}
		close(t.passed)
	}
}

// shut is how long nobody may pass; when zero, the rate is paid for one. Called with
// mu held.
func (g *gate) shut() time.Duration {
	now := time.Now()
	if wait := g.quiet.Sub(now); wait > 0 {
		return wait
	}
	paid := g.limiter.ReserveN(now, 1)
	wait := paid.DelayFrom(now)
	if wait > 0 {
		paid.CancelAt(now) // who is first by then has it
	}
	return wait
}

// later looks again after a while; called with mu held.
func (g *gate) later(wait time.Duration) {
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.look)
		return
	}
	g.timer.Reset(wait)
}

func (g *gate) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

// close ends the timer, once nobody waits any more.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}
