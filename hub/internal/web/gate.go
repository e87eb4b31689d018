package web

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/limit"
)

const (
	// allPerSecond and allBurst bound the reviews of tokens, whoever sends them.
	allPerSecond, allBurst = 5, 20
	// sourcePerSecond and sourceBurst bound those of one address, and leave half to
	// everybody else.
	sourcePerSecond, sourceBurst = 2.5, 10
	// maxReviews of tokens at once, beside those that wait for a slow API server.
	maxReviews = 8
	// reviewTimeout bounds one.
	reviewTimeout = 10 * time.Second
	// maxToken is longer than any token that an API server accepts in a header.
	maxToken = 16 << 10
)

// busyError is that there are too many logins.
type busyError struct{ retry time.Duration }

func (e *busyError) Error() string {
	return fmt.Sprintf("too many logins; try again in %.0f seconds", e.retry.Seconds()+0.5)
}

// gate lets people in who may see the page. It is safe for concurrent use.
type gate struct {
	reviewer reviewer
	visits   visits
	audit    *audit.Log
	now      func() time.Time

	all     *rate.Limiter
	sources limit.Buckets
	running chan struct{}
}

func newGate(cfg *Config) *gate {
	return &gate{
		reviewer: reviewer{api: cfg.Reviews, audience: cfg.Audience}, audit: cfg.Audit, now: cfg.Now,
		all: rate.NewLimiter(allPerSecond, allBurst), sources: limit.Buckets{Limit: sourcePerSecond, Burst: sourceBurst},
		running: make(chan struct{}, maxReviews),
	}
}

// login lets the owner of a token in and returns the visit with the ID of its session.
// With errForbidden comes who it is that may not.
func (g *gate) login(ctx context.Context, token, address string) (id string, v *visit, err error) {
	if v, err = g.review(ctx, token, address, sessionLife); err != nil {
		return "", v, err
	}
	id = rand.Text()
	g.visits.add(hashOf("session", id), v, g.now())
	return id, v, nil
}

// bearer lets the owner of a token in for a request; one that was reviewed a moment ago
// is not again.
func (g *gate) bearer(ctx context.Context, token, address string) (*visit, error) {
	of := hashOf("token", token)
	if v := g.visits.get(of, g.now()); v != nil {
		return v, nil
	}
	v, err := g.review(ctx, token, address, bearerLife)
	if err != nil {
		return nil, err
	}
	g.visits.add(of, v, g.now())
	return v, nil
}

// resume returns the visit of a session, or errUnknown for one that is over; access
// that was withdrawn meanwhile ends it.
func (g *gate) resume(ctx context.Context, id string) (*visit, error) {
	of := hashOf("session", id)
	v := g.visits.get(of, g.now())
	if v == nil {
		return nil, errUnknown
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if g.now().Sub(v.permitted) < permitAge {
		return v, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := g.reviewer.permit(ctx, &v.user); err != nil {
		if errors.Is(err, errForbidden) {
			g.visits.remove(of)
		}
		return nil, err
	}
	v.permitted = g.now()
	return v, nil
}

func (g *gate) logout(id string) { g.visits.remove(hashOf("session", id)) }

// review asks the API server about a token, unless too many are asked about. With
// errForbidden comes whose it is.
func (g *gate) review(ctx context.Context, token, address string, life time.Duration) (*visit, error) {
	if token == "" || len(token) > maxToken {
		return nil, errUnknown
	}
	now := g.now()
	for _, limiter := range []*rate.Limiter{g.sources.Get(limit.Source(address)), g.all} {
		if retry := limit.Take(limiter, now); retry > 0 {
			return nil, &busyError{retry}
		}
	}
	select {
	case g.running <- struct{}{}:
		defer func() { <-g.running }()
	default:
		return nil, &busyError{time.Second}
	}
	v, err := g.decide(ctx, token, life)
	g.record(ctx, address, v, err)
	return v, err
}

func (g *gate) decide(ctx context.Context, token string, life time.Duration) (*visit, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	user, err := g.reviewer.identify(ctx, token)
	if err != nil {
		return nil, err
	}
	now := g.now()
	v := &visit{user: user, ends: now.Add(life), permitted: now}
	if ends := expiry(token); !ends.IsZero() && ends.Before(v.ends) {
		v.ends = ends
	}
	if err := g.reviewer.permit(ctx, &user); err != nil {
		return v, err
	}
	return v, nil
}

// record tells the audit log who came, or was turned away.
func (g *gate) record(ctx context.Context, address string, v *visit, err error) {
	switch {
	case err == nil:
		g.audit.Login(ctx, v.user.Username, address, audit.Allowed, "")
	case errors.Is(err, errForbidden):
		g.audit.Login(ctx, v.user.Username, address, audit.Refused, "Forbidden")
	case errors.Is(err, errUnknown):
		g.audit.Login(ctx, "", address, audit.Refused, "TokenRejected")
	}
}

// expiry is when a token ends by its own word, which counts once it is reviewed; zero
// for a token that does not say.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}
