package syncserver_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// wire is a stream without a network, for tests that wait long by a bubble's clock.
type wire struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a stream has one
	in  chan *fleetv1.SessionRequest
	out chan *fleetv1.SessionResponse // nobody reads: a send blocks
}

func (w *wire) Context() context.Context { return w.ctx }

func (w *wire) Recv() (*fleetv1.SessionRequest, error) {
	select {
	case frame, ok := <-w.in:
		if !ok {
			return nil, io.EOF
		}
		return frame, nil
	case <-w.ctx.Done():
		return nil, w.ctx.Err()
	}
}

func (w *wire) Send(frame *fleetv1.SessionResponse) error {
	select {
	case w.out <- frame:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// prod is always the cluster at the other end.
type prod struct{}

func (prod) Identify(context.Context) (peer.Identity, error) {
	return peer.Identity{Cluster: "prod", NotAfter: time.Now().Add(24 * time.Hour)}, nil
}

func (p prod) Confirm(ctx context.Context, _ peer.Identity) (peer.Identity, error) {
	return p.Identify(ctx)
}

// prodUntil is the cluster at the other end until its root is retired.
type prodUntil struct {
	prod
	retired time.Time
}

func (p prodUntil) Confirm(ctx context.Context, _ peer.Identity) (peer.Identity, error) {
	if time.Now().Before(p.retired) {
		return p.Identify(ctx)
	}
	return peer.Identity{}, &identity.Error{Reason: identity.ReasonCertificateInvalid, Message: "no root"}
}

// hubOf is a hub with a mirror, for the cluster prod.
func hubOf(m syncserver.Mirror) (*syncserver.Server, *fleet.Fleet) { return hubWith(m, prod{}) }

// hubWith is that with other peers, and with what a test puts around the registry.
func hubWith(m syncserver.Mirror, peers syncserver.Identifier, around ...func(syncserver.Registry) syncserver.Registry) (*syncserver.Server, *fleet.Fleet) {
	kube := fake.NewClientBuilder().WithScheme(testenv.Scheme()).WithStatusSubresource(&v1alpha1.SpokeCluster{}).WithObjects(spokeCluster("prod")).Build()
	clusters := fleet.New(fleet.Config{})
	var records syncserver.Registry = &registry.Registry{Reader: kube, Status: kube.Status(), Now: time.Now}
	for _, wrap := range around {
		records = wrap(records)
	}
	return syncserver.New(syncserver.Config{
		Fleet: clusters, Mirror: m, Peers: peers, Bundle: func() [][]byte { return nil }, Registry: records,
	}), clusters
}

// openWire opens a session over a wire; ended takes how it ends.
func openWire(t *testing.T, server *syncserver.Server) (w *wire, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w = &wire{ctx: ctx, in: make(chan *fleetv1.SessionRequest), out: make(chan *fleetv1.SessionResponse)}
	ended = make(chan error, 1)
	go func() {
		ended <- server.Session(w)
		cancel() // as gRPC does
	}()
	return w, ended
}

// serveWire serves a session over a wire; the result is how it ended.
func serveWire(t *testing.T, m syncserver.Mirror, chat func(*wire)) spoketest.Verdict {
	t.Helper()
	server, _ := hubOf(m)
	return serveOn(t, server, chat)
}

func serveOn(t *testing.T, server *syncserver.Server, chat func(*wire)) spoketest.Verdict {
	t.Helper()
	w, ended := openWire(t, server)
	chat(w)
	return verdictOf(<-ended)
}

// every says a frame at an interval until the stream is over.
func (w *wire) every(interval time.Duration, frame *fleetv1.SessionRequest) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return
		}
		select {
		case w.in <- frame:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *wire) readAll() { w.read(func(*fleetv1.SessionResponse) {}) }

// read takes the hub's frames until the stream is over.
func (w *wire) read(take func(*fleetv1.SessionResponse)) {
	for {
		select {
		case frame := <-w.out:
			take(frame)
		case <-w.ctx.Done():
			return
		}
	}
}

func TestClock_AStreamThatSaysNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := serveWire(t, &mirror{}, func(*wire) {})
		if got.Reason != identity.ReasonRequestInvalid || time.Since(begin) != 10*time.Second {
			t.Errorf("%+v after %v", got, time.Since(begin))
		}
	})
}

func TestClock_APeerThatDoesNotReadIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := serveWire(t, &mirror{}, func(w *wire) {
			w.in <- helloFrame("v1", "")
			go w.every(10*time.Second, beat()) // it talks, and does not listen
		})
		if got.Reason != identity.ReasonSendBlocked || time.Since(begin) > 45*time.Second {
			t.Errorf("%+v after %v", got, time.Since(begin))
		}
	})
}

func TestClock_ThreeMissedHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		beats := 0
		got := serveWire(t, &mirror{}, func(w *wire) {
			go w.read(func(frame *fleetv1.SessionResponse) {
				if frame.GetHeartbeat() != nil {
					beats++
				}
			})
			w.in <- helloFrame("v1", "")
		})
		if after := time.Since(begin); got.Reason != identity.ReasonHeartbeatMissed || after <= 30*time.Second || after > 41*time.Second {
			t.Errorf("%+v after %v", got, after)
		}
		synctest.Wait() // the reader has ended
		if beats < 3 {
			t.Errorf("the hub sent %d heartbeats of its own", beats)
		}
	})
}

func TestClock_ASpokeThatBeatsStaysForTheSessionsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := serveWire(t, &mirror{}, func(w *wire) {
			go w.readAll()
			w.in <- helloFrame("v1", "")
			go w.every(10*time.Second, beat())
		})
		if age := time.Since(begin); got.Reason != identity.ReasonSessionAged || age < 24*time.Minute || age > 36*time.Minute {
			t.Errorf("%+v after %v, want 30 minutes and a fifth more or less", got, age)
		}
	})
}

func TestClock_ARetiredRootEndsTheSessionsItVouchedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		server, _ := hubWith(&mirror{}, prodUntil{retired: begin.Add(time.Minute)})
		got := serveOn(t, server, func(w *wire) {
			go w.readAll()
			w.in <- helloFrame("v1", "")
			go w.every(10*time.Second, beat())
		})
		if after := time.Since(begin); got.Reason != identity.ReasonCertificateInvalid || after < 2*time.Minute || after > 130*time.Second {
			t.Errorf("%+v after %v, want a minute for the spoke to leave, after a heartbeat at most", got, after)
		}
	})
}

// slow is a mirror that takes a minute for an inventory.
type slow struct{ mirror }

func (*slow) Replace(ctx context.Context, _ string, _ []*v1alpha1.DynamicConfigRender) error {
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The hub's own slowness is no silence of the spoke.
func TestClock_ASlowHubBlamesNobody(t *testing.T) {
	for range 20 { // of several things to do the hub picks one by chance
		synctest.Test(t, func(t *testing.T) {
			got := serveWire(t, &slow{}, func(w *wire) {
				go w.readAll()
				w.in <- helloFrame("v1", "")
				w.in <- inventory("shop/web@1")
				go w.every(10*time.Second, beat())
			})
			if got.Reason != identity.ReasonSessionAged {
				t.Errorf("verdict %+v", got)
			}
		})
	}
}

// Hundreds of sessions, each of which takes over from the one before, leave nothing
// behind: a goroutine that is left fails the bubble.
func TestClock_ManySessionsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, clusters := hubOf(&mirror{renders: map[string]*v1alpha1.DynamicConfigRender{}})
		var older *wire
		var over chan error
		for range 300 {
			<-time.After(6 * time.Second) // as often as a cluster may
			w, ended := openWire(t, server)
			go w.readAll()
			w.in <- helloFrame("v1", "pod-1")
			w.in <- inventory("shop/web@1")
			w.in <- beat() // once the inventory is taken
			if older != nil {
				if got := verdictOf(<-over); got.Reason != identity.ReasonSuperseded {
					t.Fatalf("the session before ends with %+v", got)
				}
			}
			older, over = w, ended
		}
		if open := clusters.Sessions("prod"); len(open) != 1 || open[0].Epoch() != 300 {
			t.Errorf("%d sessions are open", len(open))
		}
		close(older.in)
		if got := verdictOf(<-over); got != (spoketest.Verdict{}) {
			t.Errorf("the last session ends with %+v", got)
		}
		if clusters.Connected("prod") {
			t.Error("a session is left")
		}
	})
}
