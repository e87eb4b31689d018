package syncserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/identity"
)

// certified is the cluster prod with a certificate that ends at a time.
type certified time.Time

func (c certified) Identify(context.Context) (peer.Identity, error) {
	return peer.Identity{Cluster: "prod", NotAfter: time.Time(c)}, nil
}

func (c certified) Confirm(ctx context.Context, _ peer.Identity) (peer.Identity, error) {
	return c.Identify(ctx)
}

// away is a registry that does not answer for a while.
type away struct {
	syncserver.Registry
	from, to time.Time
}

func (a away) CheckSession(ctx context.Context, cluster string, epoch int64, instance string) error {
	if now := time.Now(); now.After(a.from) && now.Before(a.to) {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.Registry.CheckSession(ctx, cluster, epoch, instance)
}

// While no other session can open, the one that is held is better than none; a certificate
// ends it for all that.
func TestClock_AnOutageOfTheRegistryEndsNoSessionByItsAge(t *testing.T) {
	for name, tc := range map[string]struct {
		certificate, outage time.Duration
		least, most         time.Duration // that the session lives
	}{
		"an outage of two hours, and the time for an agent to come": {24 * time.Hour, 2 * time.Hour, 2*time.Hour + time.Minute, 2*time.Hour + 3*time.Minute},
		"an outage that is over before":                             {24 * time.Hour, 20 * time.Minute, 24 * time.Minute, 36 * time.Minute},
		"a certificate that ends in it":                             {time.Hour, 2 * time.Hour, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				server, _ := hubWith(&mirror{}, certified(begin.Add(tc.certificate)), func(r syncserver.Registry) syncserver.Registry {
					return away{r, begin.Add(time.Second), begin.Add(tc.outage)}
				})
				got := serveOn(t, server, func(w *wire) {
					go w.readAll()
					w.in <- helloFrame("v1", "")
					go w.every(10*time.Second, beat())
				})
				if lived := time.Since(begin); got.Reason != identity.ReasonSessionAged || lived < tc.least || lived > tc.most {
					t.Errorf("%+v after %v", got, lived)
				}
			})
		})
	}
}

// What the registry says of the cluster counts at the session's age as before.
func TestClock_ASuspensionThatWasNotHeardOfEndsASessionAtItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		server, _ := hubWith(&mirror{}, prod{}, func(r syncserver.Registry) syncserver.Registry { return refusing{r, begin.Add(time.Second)} })
		got := serveOn(t, server, func(w *wire) {
			go w.readAll()
			w.in <- helloFrame("v1", "")
			go w.every(10*time.Second, beat())
		})
		if lived := time.Since(begin); got.Reason != identity.ReasonSuspended || lived > 36*time.Minute {
			t.Errorf("%+v after %v", got, lived)
		}
	})
}

// refusing is a registry that knows of a suspension that the hub's cache missed.
type refusing struct {
	syncserver.Registry
	from time.Time
}

func (r refusing) CheckSession(ctx context.Context, cluster string, epoch int64, instance string) error {
	if time.Now().After(r.from) {
		return &identity.Error{Reason: identity.ReasonSuspended}
	}
	return r.Registry.CheckSession(ctx, cluster, epoch, instance)
}
