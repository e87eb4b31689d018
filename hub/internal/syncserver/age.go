package syncserver

import (
	"cmp"
	"context"
	"errors"
	"time"

	"dynamic-config.rs/fleet/internal/identity"
)

// againAfter is how long a session goes on at its age while no other can open, and once
// more when one can again: an agent tries at least that often.
const againAfter = time.Minute

// age are the clocks by which a session ends in time.
type age struct {
	lead       time.Duration
	drain, end *time.Timer
	// until is when end fires.
	until time.Time
	// asked takes what the registry says once the end has come.
	asked chan error
	// silent says that it did not answer.
	silent bool
}

func newAge(notAfter time.Time) *age {
	life := time.Until(notAfter)
	lead := ageLead(life)
	return &age{
		lead: lead, drain: time.NewTimer(life - lead), end: time.NewTimer(life), until: notAfter,
		asked: make(chan error, 1),
	}
}

func (a *age) stop() {
	a.drain.Stop()
	a.end.Stop()
}

// ageLead is how long before a session's end its spoke is told to open the next: 20
// seconds, or a quarter of a shorter life.
func ageLead(life time.Duration) time.Duration { return min(20*time.Second, life/4) }

// aged acts on a session's end. That of its certificate counts whatever else is so. That of
// its age does where the next session could open: a registry that does not answer admits
// none, and the spoke would be without one. It is asked beside the handler.
func (c *conn) aged(ctx context.Context) error {
	if c.unverified != nil || !time.Now().Before(c.peer.NotAfter) {
		return cmp.Or(c.unverified, error(errAged))
	}
	c.endAt(c.peer.NotAfter)
	// Ended by the timeout; one is asked at a time, and there is room for its answer.
	go func() {
		ctx, cancel := context.WithTimeout(ctx, registryTimeout)
		defer cancel()
		c.age.asked <- c.server.cfg.Registry.CheckSession(ctx, c.cluster, c.session.Epoch(), c.session.Instance())
	}()
	return nil
}

// answered acts on what the registry said of a session at its end.
func (c *conn) answered(answer error) error {
	var refusal *identity.Error
	switch {
	case errors.As(answer, &refusal):
		return refusal
	case answer == nil && !c.age.silent:
		return errAged
	}
	c.age.silent = answer != nil
	if c.unverified == nil { // else its end is set
		c.endAt(time.Now().Add(againAfter))
	}
	return nil
}

// endAt has the session's end come at a time, or with its certificate's.
func (c *conn) endAt(t time.Time) {
	if c.peer.NotAfter.Before(t) {
		t = c.peer.NotAfter
	}
	c.age.until = t
	c.age.end.Reset(time.Until(t))
}
