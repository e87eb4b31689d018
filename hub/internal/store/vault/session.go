package vault

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

const (
	// reloginEvery bounds the logins that answer a 403: a key that stays forbidden
	// must not cost a login at every poll.
	reloginEvery = time.Minute
	// refusedFor is how long a refused login is not tried again: Vault locks a role
	// for everybody after five refusals within 15 minutes. A better credential comes
	// with a new client.
	refusedFor = 5 * time.Minute
	// renewAgain is when a renewal is tried again that got no answer.
	renewAgain = 10 * time.Second
)

// session keeps the client logged in. It is safe for concurrent use.
type session struct {
	method   method
	flights  flights // of logins
	relogins *rate.Limiter

	// mu guards what follows.
	mu       sync.Mutex
	held     *lease // nil before the first login
	farewell func() error
	refusal  *store.Error
	refusedT time.Time // when the store refused
}

func newSession(to *requester, login *Login, credential string) *session {
	return &session{
		method:   newMethod(to, login, credential),
		relogins: rate.NewLimiter(rate.Every(reloginEvery), 1),
	}
}

// lease is a token and how long it holds; it is not changed.
type lease struct {
	token     string
	renewable bool
	ttl       time.Duration // zero when it holds for ever
	renewAt   time.Time
	end       time.Time
}

// newLease is a lease that begins now. Two thirds of its time leave one for a store
// that is down for a while; a token that cannot be replaced is used to its end.
func newLease(token string, ttl time.Duration, renewable, replaceable bool, now time.Time) *lease {
	l := &lease{token: token, renewable: renewable, ttl: ttl, renewAt: now.Add(ttl), end: now.Add(ttl)}
	if renewable || replaceable {
		l.renewAt = now.Add(ttl * 2 / 3)
	}
	return l
}

// isFresh says whether the token can be used as it is.
func (l *lease) isFresh(now time.Time) bool {
	return l != nil && (l.ttl == 0 || now.Before(l.renewAt))
}

// isAlive says whether the token's time is not over.
func (l *lease) isAlive(now time.Time) bool {
	return l != nil && (l.ttl == 0 || now.Before(l.end))
}

func (s *session) lease() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// token answers the one that is held; empty before the first login.
func (s *session) token() string {
	if held := s.lease(); held != nil {
		return held.token
	}
	return ""
}

// current answers a lease to make a request with, renewed or logged in for if need
// be.
func (s *session) current(ctx context.Context) (*lease, error) {
	if held := s.lease(); held.isFresh(time.Now()) {
		return held, nil
	}
	if err := s.flights.do(ctx, "login", func() error { return s.refresh(ctx) }); err != nil {
		return nil, err
	}
	return s.lease(), nil
}

// refresh makes the lease a fresh one, or leaves one that is alive when the store
// does not answer.
func (s *session) refresh(ctx context.Context) error {
	now, held := time.Now(), s.lease()
	switch {
	case held.isFresh(now):
		return nil
	case !held.isAlive(now) || !held.renewable:
		return s.logIn(ctx)
	}
	renewed, err := s.method.renew(ctx, held)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case store.ReasonOf(err) == v1alpha1.ReasonCredentialRejected:
		return s.logIn(ctx)
	case renewed == nil: // no answer
		later := *held
		later.renewAt = now.Add(renewAgain)
		s.keep(&later)
		return nil
	case renewed.ttl < held.ttl/2 && s.method.replaceable():
		// Its longest time is near: from here on renewals would be ever shorter.
		return s.logIn(ctx)
	}
	s.keep(renewed)
	return nil
}

// denied answers what to use after a 403 under a lease: another lease, or the same
// when it is not yet time for a new login.
func (s *session) denied(ctx context.Context, used *lease) (*lease, error) {
	err := s.flights.do(ctx, "login", func() error {
		if s.token() != used.token {
			return nil
		}
		if refusal := s.refused(time.Now()); refusal != nil {
			return refusal
		}
		if !s.relogins.Allow() {
			return nil
		}
		return s.logIn(ctx)
	})
	return s.lease(), err
}

// logIn replaces the lease.
func (s *session) logIn(ctx context.Context) error {
	if refusal := s.refused(time.Now()); refusal != nil {
		return refusal
	}
	old := s.lease()
	fresh, err := s.method.logIn(ctx, old == nil)
	if err != nil {
		s.noteRefusal(err)
		return err
	}
	s.keep(fresh)
	s.mu.Lock()
	// A close comes without a context, and may come long after this one ended.
	s.farewell = func() error { return s.method.revoke(context.WithoutCancel(ctx), s.lease()) }
	s.mu.Unlock()
	if old != nil && old.token != fresh.token && old.isAlive(time.Now()) {
		// It may be invalid already, which is why it is replaced.
		_ = s.method.revoke(ctx, old)
	}
	return nil
}

// end revokes the token, if the client logged in for it.
func (s *session) end() error {
	s.mu.Lock()
	held, farewell := s.held, s.farewell
	s.mu.Unlock()
	if !held.isAlive(time.Now()) {
		return nil
	}
	return farewell()
}

func (s *session) keep(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.refusal = l, nil
}

// refused answers the store's last refusal while that counts; nil without one.
func (s *session) refused(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal == nil || now.Sub(s.refusedT) >= refusedFor {
		return nil
	}
	return s.refusal
}

// noteRefusal remembers that the store refused, not that it was down.
func (s *session) noteRefusal(err error) {
	failure, ok := errors.AsType[*store.Error](err)
	if !ok || failure.Reason != v1alpha1.ReasonCredentialRejected {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal, s.refusedT = failure, time.Now()
}
