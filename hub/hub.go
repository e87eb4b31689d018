package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/controller/class"
	"dynamic-config.rs/fleet/hub/internal/controller/render"
	"dynamic-config.rs/fleet/hub/internal/controller/spokecluster"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/metrics"
	"dynamic-config.rs/fleet/hub/internal/mirror"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/replicas"
	"dynamic-config.rs/fleet/internal/telemetry"
)

// Run runs a hub until the context ends, then lets its spokes go and returns.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	audits := newAudit(cfg)
	secrets, err := loadSecrets(ctx, cfg, scheme, audits)
	if err != nil {
		return err
	}
	mirrors := mirror.NewProvider(scheme)
	mgr, err := newManager(ctx, cfg, scheme, mirrors)
	if err != nil {
		return err
	}

	wakes := &render.Wakes{}
	observers := observers{metrics.NewStores(), metrics.NewDeliveries()}
	feeds := feed.New(feed.Config{Wake: wakes.Wake, Observer: observers.stores, MaxBytes: cfg.MaxDocumentBytes})
	clusters := newFleet(cfg, feeds, mirrors)
	local := mgr.GetLocalManager()
	spokes := &registry.Registry{
		Reader: local.GetAPIReader(), Status: local.GetClient().Status(), Now: time.Now,
		Refusals: &registry.Refusals{Recorder: local.GetEventRecorder(v1alpha1.FieldManager)},
	}
	peers, err := newReplicas(cfg)
	if err != nil {
		return err
	}
	parts := parts{mirrors, feeds, clusters, wakes, spokes, secrets, audits, peers, observers}
	if err := setUpControllers(ctx, cfg, mgr, parts); err != nil {
		return err
	}
	serving, err := newServing(cfg, parts, mgr.GetLocalManager().GetCache())
	if err != nil {
		return err
	}
	balance(peers.balancer, mgr.GetLocalManager().GetCache(), serving)
	if err := registerMetrics(collectors(ctx, mgr.GetLocalManager().GetCache(), parts, serving)); err != nil {
		return err
	}
	if err := addRunnables(mgr, parts, serving); err != nil {
		return err
	}
	if err := addPage(cfg, mgr, parts, serving); err != nil {
		return err
	}
	return runUntilDrained(ctx, mgr, serving, cfg.DrainWindow)
}

// addRunnables has the manager run everything that is no controller, and answer probes.
func addRunnables(mgr mcmanager.Manager, p parts, s *serving) error {
	local := mgr.GetLocalManager()
	for _, r := range []manager.Runnable{
		everyReplica(p.feeds.Run),
		everyReplica(p.secrets.Authority.Run),
		everyReplica(p.audits.Run),
		everyReplica(func(ctx context.Context) error { return p.mirrors.Run(ctx, mgr) }),
		everyReplica(s.run),
		everyReplica(p.peers.presence.Run),
		everyReplica(p.peers.leader.Run),
		p.peers.balancer,
		&spokecluster.Counter{Fleet: p.clusters, Registry: p.registry},
		&spokecluster.Keeper{Hub: local.GetCache(), Leader: p.peers.leader, Replicas: p.peers.watch, Registry: p.registry},
	} {
		if err := local.Add(r); err != nil {
			return err
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("serving", s.ready)
}

// runUntilDrained keeps everything running while spokes leave, so that one that
// stays to the end misses nothing.
func runUntilDrained(ctx context.Context, mgr mcmanager.Manager, s *serving, window time.Duration) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		s.drain(running, window)
		stop()
		return <-ended
	}
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

func loadSecrets(ctx context.Context, cfg Config, scheme *runtime.Scheme, audits *audit.Log) (*authority.Secrets, error) {
	direct, err := client.New(cfg.REST, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reach the hub's cluster: %w", err)
	}
	return authority.Load(ctx, authority.Config{
		Client: direct, Namespace: cfg.Namespace, TrustDomain: cfg.TrustDomain,
		External: cfg.CASecret, Grace: cfg.CARotationGrace, Now: time.Now, Audit: audits,
	})
}

func newAudit(cfg Config) *audit.Log {
	if cfg.Audit == nil {
		return nil
	}
	return audit.New(cfg.Audit)
}

// withoutStart hides a provider's other methods from the manager.
type withoutStart struct{ multicluster.Provider }

func newManager(ctx context.Context, cfg Config, scheme *runtime.Scheme, mirrors *mirror.Provider) (mcmanager.Manager, error) {
	return mcmanager.New(cfg.REST, withoutStart{mirrors}, manager.Options{
		Scheme:                 scheme,
		Logger:                 ctrl.LoggerFrom(ctx),
		BaseContext:            func() context.Context { return ctrl.LoggerInto(context.WithoutCancel(ctx), ctrl.LoggerFrom(ctx)) },
		Metrics:                telemetry.MetricsServer(cfg.MetricsAddress, cfg.LogLevel),
		HealthProbeBindAddress: cfg.HealthAddress,
		PprofBindAddress:       cfg.ProfilingAddress,
		// The priority queue of controller-runtime 0.24 can block for ever where it is shut
		// down with items in it.
		Controller: config.Controller{UsePriorityQueue: new(false)},
		// A read of a Secret or ConfigMap never starts a watch on all of their data.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
	})
}

// peers are this replica among the others.
type peers struct {
	presence *replicas.Presence
	watch    *replicas.Watch
	leader   leader
	balancer *replicas.Balancer
}

// leader is the election, or a replica that is alone.
type leader interface {
	class.Leader
	Run(ctx context.Context) error
}

func newReplicas(cfg Config) (*peers, error) {
	client, err := coordinationclient.NewForConfig(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("reach the leases of the hub's cluster: %w", err)
	}
	p := &peers{
		presence: replicas.NewPresence(client.Leases(cfg.Namespace), cfg.Replica),
		watch:    replicas.NewWatch(client.Leases(cfg.Namespace), time.Now),
		leader:   replicas.Alone{},
		balancer: &replicas.Balancer{
			Replica: cfg.Replica, Interval: cfg.BalanceInterval,
			Watch: replicas.NewWatch(client.Leases(cfg.Namespace), time.Now),
		},
	}
	if cfg.LeaderElect {
		p.leader, err = replicas.NewLeader(client, cfg.Namespace, cfg.Replica)
	}
	return p, err
}

// balance gives the balancer what it compares, and the sessions that it moves.
func balance(b *replicas.Balancer, hub client.Reader, s *serving) {
	b.Held = func(ctx context.Context) (map[string]int, error) { return spokecluster.Held(ctx, hub) }
	b.Move = s.sessions.Move
}

// parts are what controllers and the port are made of.
type parts struct {
	mirrors  *mirror.Provider
	feeds    *feed.Feeds
	clusters *fleet.Fleet
	wakes    *render.Wakes
	registry *registry.Registry
	secrets  *authority.Secrets
	audits   *audit.Log
	peers    *peers
	observers
}

func setUpControllers(ctx context.Context, cfg Config, mgr mcmanager.Manager, p parts) error {
	local := mgr.GetLocalManager()
	open, err := newOpener(local.GetConfig())
	if err != nil {
		return err
	}
	if err := classes.IndexSecrets(ctx, local.GetFieldIndexer()); err != nil {
		return err
	}
	renders := &render.Reconciler{
		Clusters: p.mirrors, Hub: local.GetCache(), Feeds: p.feeds, Outbox: p.clusters,
		Classes: &classes.Resolver{
			Objects: local.GetCache(),
			Secrets: classes.NewSecrets(local.GetCache(), local.GetAPIReader()),
			Open:    open,
		},
		Hasher: fleet.NewHasher(p.secrets.ContentKey), Audit: p.audits,
	}
	if err := renders.SetUp(ctx, mgr, p.wakes); err != nil {
		return err
	}
	for _, kind := range []v1alpha1.ClassKind{v1alpha1.ClassKindCluster, v1alpha1.ClassKindNamespaced} {
		c := &class.Reconciler{Kind: kind, Hub: local.GetCache(), Status: local.GetClient().Status(), Classes: renders.Classes, Feeds: p.feeds, Leader: p.peers.leader}
		if err := c.SetUp(local); err != nil {
			return err
		}
	}
	spokes := &spokecluster.Reconciler{
		Hub: local.GetCache(), Sessions: p.clusters, Mirrors: p.mirrors, Feeds: p.feeds, Audit: p.audits, Replica: cfg.Replica,
	}
	if err := spokes.SetUp(local); err != nil {
		return err
	}
	sessions := &spokecluster.Recorder{Hub: local.GetCache(), Sessions: p.clusters, Registry: p.registry, Replica: cfg.Replica, Began: time.Now()}
	return sessions.SetUp(local)
}

// everyReplica is a runnable that does not wait to be leader.
type everyReplica func(ctx context.Context) error

var _ manager.LeaderElectionRunnable = everyReplica(nil)

// Start runs it.
func (r everyReplica) Start(ctx context.Context) error { return r(ctx) }

// NeedLeaderElection is false: every replica serves.
func (everyReplica) NeedLeaderElection() bool { return false }
