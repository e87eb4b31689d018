package hub

import (
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/replicas"
	"dynamic-config.rs/fleet/hub/internal/syncserver"
	"dynamic-config.rs/fleet/hub/internal/web"
	"dynamic-config.rs/fleet/internal/identity"
)

// DefaultServerName is a name in every hub's certificate, so that a spoke can name
// the hub it means whatever address it dials.
const DefaultServerName = "dynamic-config-hub"

// DefaultWebAudience is an audience that only the fleet page has.
const DefaultWebAudience = web.DefaultAudience

// Config says how a hub runs.
type Config struct {
	// REST reaches the hub's own cluster.
	REST *rest.Config
	// Namespace of the hub's own Secrets.
	Namespace string
	// ListenAddress of the one port for enrolment and sessions, host:port.
	ListenAddress string
	// ServerNames are further DNS names and IP addresses in the hub's certificate,
	// beside DefaultServerName.
	ServerNames []string
	// TrustDomain of the identities; identity.DefaultTrustDomain when empty. It
	// must never change while spokes are enrolled.
	TrustDomain string
	// Replica names this process among the replicas of the hub, for people and in a
	// Lease: a DNS name. Random when empty.
	Replica string
	// LeaderElect elects the replica that writes the status of classes and keeps that
	// of SpokeClusters. A hub without it must have one replica.
	LeaderElect bool
	// MetricsAddress serves /metrics; "0" for none.
	MetricsAddress string
	// LogLevel is shown and set beside the metrics, see telemetry.ServeLevel; nil for
	// not at all.
	LogLevel *slog.LevelVar
	// HealthAddress serves /healthz and /readyz; "0" for none.
	HealthAddress string
	// WebAddress serves the fleet page, over TLS and to who may see it; none when empty.
	WebAddress string
	// WebAudience is what tokens must be meant for that the page accepts: those of the
	// API server itself when empty.
	WebAudience string
	// ProfilingAddress serves /debug/pprof; empty for none.
	ProfilingAddress string

	// Audit takes a JSON line for each decision, enrolment and end of a session; nil
	// for none.
	Audit io.Writer

	// CertificateLifetime of spokes; a day when 0.
	CertificateLifetime time.Duration
	// CASecret is a Secret of type kubernetes.io/tls in Namespace that somebody else
	// keeps and whose authority the hub signs with; when empty, the hub makes and
	// rotates its own.
	CASecret string
	// CARotationGrace is how long a new root is told to spokes before it signs; two
	// days more than CertificateLifetime when 0.
	CARotationGrace time.Duration
	// Heartbeat of sessions; 10 s when 0.
	Heartbeat time.Duration
	// SessionAge after which a spoke opens another session; 30 min when 0.
	SessionAge time.Duration
	// DrainWindow over which spokes leave at a shutdown; 5 s when 0.
	DrainWindow time.Duration
	// BalanceInterval is how often this replica compares what it holds with the others;
	// replicas.DefaultBalanceInterval when 0.
	BalanceInterval time.Duration
	// ReleaseAfter is how long the documents of a cluster without a session are
	// still followed; 30 s when 0.
	ReleaseAfter time.Duration
	// MaxDocumentBytes of documents that this replica holds, with what it rendered of
	// them; feed.DefaultMaxBytes when 0. What is beyond is fetched again when needed.
	MaxDocumentBytes int64
}

// Validate refuses a Config that cannot run and sets the defaults.
func (c *Config) Validate() error {
	if c.REST == nil || c.Namespace == "" || c.ListenAddress == "" {
		return errors.New("a hub needs a cluster, a namespace and an address to listen on")
	}
	setDefault(&c.Replica, "hub-"+strings.ToLower(rand.Text()))
	if err := replicas.Validate(c.Replica); err != nil {
		return err
	}
	setDefault(&c.TrustDomain, identity.DefaultTrustDomain)
	setDefault(&c.MetricsAddress, "0")
	setDefault(&c.HealthAddress, "0")
	setDefault(&c.CertificateLifetime, authority.DefaultSpokeLifetime)
	setDefault(&c.CARotationGrace, authority.GraceFor(c.CertificateLifetime))
	setDefault(&c.Heartbeat, syncserver.DefaultHeartbeat)
	setDefault(&c.SessionAge, syncserver.DefaultMaxAge)
	setDefault(&c.DrainWindow, 5*time.Second)
	setDefault(&c.BalanceInterval, replicas.DefaultBalanceInterval)
	setDefault(&c.ReleaseAfter, 30*time.Second)
	setDefault(&c.MaxDocumentBytes, feed.DefaultMaxBytes)
	if c.BalanceInterval < 0 {
		return errors.New("the interval at which replicas compare their sessions is more than nothing")
	}
	if c.MaxDocumentBytes < 0 {
		return errors.New("the bytes of documents that a hub holds are more than none")
	}
	return nil
}

func setDefault[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}
