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

// gate lets the requests of one source pass: in the order of its queue, at the
// source's rate, so many at once, not while the store wants quiet, and one at a time
// while it is down.
type gate struct {
	limiter *rate.Limiter

	// mu guards what follows.
	mu      sync.Mutex
	queue   queue
	breaker breaker
	places  int         // that are free
	quiet   time.Time   // nothing passes before
	timer   *time.Timer // looks again; nil before it was needed
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

// news is what the end of a request means for the whole source.
type news struct {
	hushed bool // the store asked for quiet
	turned turned
}

// done ends a request that was let pass.
func (g *gate) done(t *turn, err error) news {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.place {
		g.places++
	}
	now := time.Now()
	got := news{turned: g.breaker.after(err, t.probe, now)}
	if failure, ok := errors.AsType[*store.Error](err); ok && failure.RetryAfter > 0 {
		got.hushed = true
		if until := now.Add(failure.RetryAfter); until.After(g.quiet) {
			g.quiet = until
		}
	}
	g.pass()
	return got
}

// outage is why the store is taken to be down, about no key; nil while it is up. Due
// says whether a probe may be sent.
func (g *gate) outage() (why *store.Error, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.breaker.why, !g.breaker.probing && !time.Now().Before(g.breaker.retryAt)
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
		// What blocks on purpose is no probe: its answer would tell nothing for long.
		isDown := g.breaker.isDown()
		placed, free := g.places > 0 && !g.breaker.probing, !isDown
		t := g.queue.next(placed, free)
		if t == nil {
			return // until somebody comes, a place is free, or a probe ends
		}
		if wait := g.shut(); wait > 0 {
			g.later(wait)
			return
		}
		g.queue.pass(t, placed, free)
		if t.place {
			g.places--
		}
		t.probe, g.breaker.probing = isDown, isDown
		close(t.passed)
	}
}

// shut is how long nobody may pass; when zero, the rate is paid for one. Called with
// mu held.
func (g *gate) shut() time.Duration {
	now := time.Now()
	if wait := max(g.quiet.Sub(now), g.breaker.retryAt.Sub(now)); wait > 0 {
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
