package syncserver

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/peer"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

const (
	// ProtocolVersion is what this hub speaks.
	ProtocolVersion = 1
	// DefaultHeartbeat is how often each side says that it is there.
	DefaultHeartbeat = 10 * time.Second
	// missedHeartbeats end a session.
	missedHeartbeats = 3
	// sendTimeout cuts a peer that does not read.
	sendTimeout = 30 * time.Second
	// helloTimeout is how long a new stream may be silent.
	helloTimeout = 10 * time.Second
	// DefaultMaxAge is how long a session lives, give or take a fifth: long enough
	// that reconnecting costs little, short enough that spokes spread over replicas.
	DefaultMaxAge = 30 * time.Minute
	// DefaultMaxRenders bounds one cluster's inventory.
	DefaultMaxRenders = 20_000
	// maxText bounds what an agent says of itself, which is kept in a status.
	maxText = 128
	// keysInterval and keysBurst bound what one session's reports of its cluster's keys
	// cost the API server; an agent looks every ten minutes.
	keysInterval, keysBurst = time.Minute, 3
	// registryTimeout bounds what is asked of the registry besides the opening of a
	// session.
	registryTimeout = 5 * time.Second
)

// Mirror takes the inventories of spokes.
type Mirror interface {
	Replace(ctx context.Context, cluster string, renders []*v1alpha1.DynamicConfigRender) error
	Upsert(cluster string, render *v1alpha1.DynamicConfigRender)
	Remove(cluster, namespace, name string)
}

// Registry admits clusters and records their sessions.
type Registry interface {
	OpenSession(ctx context.Context, cluster string, s v1alpha1.SpokeSession) (epoch int64, err error)
	CloseSession(ctx context.Context, cluster string, epoch int64) error
	CheckSession(ctx context.Context, cluster string, epoch int64, instance string) error
	ReportKeys(ctx context.Context, cluster string, keys v1alpha1.ClusterKeys) error
}

// Identifier verifies the client certificate of a stream.
type Identifier interface {
	Identify(ctx context.Context) (peer.Identity, error)
	// Confirm verifies again who was identified before.
	Confirm(ctx context.Context, before peer.Identity) (peer.Identity, error)
}

// Config is what a Server needs. Durations and bounds of 0 mean the defaults.
type Config struct {
	Fleet    *fleet.Fleet
	Mirror   Mirror
	Registry Registry
	Peers    Identifier
	// Bundle is every root that a spoke should accept of a hub.
	Bundle func() [][]byte
	// Hub names this replica, for people.
	Hub string
	// Audit takes the end of every stream; nil for none.
	Audit *audit.Log
	// Observer of deliveries; nil for none.
	Observer Observer

	Heartbeat  time.Duration
	MaxAge     time.Duration
	MaxRenders int
}

// Server is the SyncService.
type Server struct {
	fleetv1.UnimplementedSyncServiceServer
	cfg       Config
	admission *admission

	// draining is closed by Drain; drainWindow is set before.
	draining    chan struct{}
	drainOnce   sync.Once
	drainWindow time.Duration

	open         open
	ignored      atomic.Int64
	certificates certificates
}

var _ fleetv1.SyncServiceServer = (*Server)(nil)

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = DefaultHeartbeat
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = DefaultMaxAge
	}
	if cfg.MaxRenders == 0 {
		cfg.MaxRenders = DefaultMaxRenders
	}
	cfg.Observer = cmp.Or[Observer](cfg.Observer, unobserved{})
	return &Server{cfg: cfg, admission: newAdmission(), draining: make(chan struct{})}
}

// Ignored is the number of frames that this hub did not know or could not use.
func (s *Server) Ignored() int64 { return s.ignored.Load() }

// Session serves one stream until it is over. Its errors are statuses with an
// ErrorInfo.
func (s *Server) Session(stream fleetv1.SyncService_SessionServer) error {
	ctx := stream.Context()
	id, err := s.cfg.Peers.Identify(ctx)
	if err != nil {
		logEnd(ctx, "", err)
		s.cfg.Audit.Session(ctx, "", err)
		return peer.Status(err)
	}
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithName("session").WithValues("cluster", id.Cluster))
	err = s.serve(ctx, stream, id)
	logEnd(ctx, id.Cluster, err)
	s.cfg.Audit.Session(ctx, id.Cluster, err)
	return peer.Status(err)
}

func (s *Server) serve(ctx context.Context, stream fleetv1.SyncService_SessionServer, id peer.Identity) error {
	if err := s.admission.enter(ctx, id.Cluster); err != nil {
		return err
	}
	if s.isDraining() {
		return errDraining
	}
	c := newConn(s, stream, id)
	go c.receive(ctx)
	hello, err := c.hello(ctx)
	if err != nil {
		return err
	}
	who := v1alpha1.SpokeSession{Hub: s.cfg.Hub, AgentVersion: clip(hello.GetAgent().GetVersion()), Instance: clip(hello.GetAgent().GetInstance())}
	epoch, err := s.cfg.Registry.OpenSession(ctx, id.Cluster, who)
	if err != nil {
		return err
	}
	if c.session, err = s.cfg.Fleet.Connect(id.Cluster, epoch, who.Instance); err != nil {
		return errTwin // one that opened after this one was faster to get here
	}
	defer s.close(ctx, c)
	// An administrator or another agent who acted before Connect found no session to end.
	if err := s.cfg.Registry.CheckSession(ctx, id.Cluster, epoch, who.Instance); err != nil {
		return err
	}
	c.notAfter = s.notAfter(id)
	defer s.open.hold(c)()
	defer s.certificates.hold(id.Cluster, id.NotAfter)()
	return c.run(ctx)
}

// clip shortens a text to what is kept of it.
func clip(text string) string { return text[:min(len(text), maxText)] }

// close forgets the session here and in the registry, also when the stream's
// context is over, as it mostly is. An end that cannot be recorded now is later, by
// controller/spokecluster, as is that of a session whose opening failed.
func (s *Server) close(ctx context.Context, c *conn) {
	s.cfg.Fleet.Detach(c.session)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryTimeout)
	defer cancel()
	if err := s.cfg.Registry.CloseSession(ctx, c.cluster, c.session.Epoch()); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Recording the end of a session failed, it will be tried again")
	}
}

// notAfter is the earlier of the certificate's end, which is hard, and the session's age,
// which is spread so that sessions opened together do not end together.
func (s *Server) notAfter(id peer.Identity) time.Time {
	age := s.cfg.MaxAge - s.cfg.MaxAge/5 + rand.N(s.cfg.MaxAge*2/5+1) //nolint:gosec // G404: spreads load, guards nothing
	if aged := time.Now().Add(age); aged.Before(id.NotAfter) {
		return aged
	}
	return id.NotAfter
}

// logEnd says why a session is over: at V(0), since it is a change of state.
func logEnd(ctx context.Context, cluster string, err error) {
	log := ctrl.LoggerFrom(ctx)
	var refusal *identity.Error
	switch {
	case err == nil:
		log.Info("Session closed by the spoke")
	case errors.As(err, &refusal):
		log.Info("Session ended", "reason", refusal.Reason)
	case ctx.Err() != nil:
		log.Info("Session lost")
	default:
		log.Error(err, "Session failed", "known", cluster != "")
	}
}
