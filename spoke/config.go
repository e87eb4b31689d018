package spoke

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/spoke/internal/controller"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

// DefaultServerName is the name in a hub's certificate.
const DefaultServerName = "dynamic-config-hub"

// Backoff says how long the agent waits before it connects again.
type Backoff = syncclient.Backoff

// Config configures an agent.
type Config struct {
	// REST reaches the API server of the workload cluster.
	REST *rest.Config
	// HubAddress is the hub's host:port.
	HubAddress string
	// HubCAFile holds the hub's roots in PEM.
	HubCAFile string
	// HubServerName is the name in the hub's certificate; DefaultServerName when
	// empty.
	HubServerName string
	// Cluster is the name of the SpokeCluster on the hub, a DNS label.
	Cluster string
	// TrustDomain is the hub's; identity.DefaultTrustDomain when empty.
	TrustDomain string
	// JoinTokenFile holds a join token for the first contact of a cluster whose keys
	// the hub does not know. It may be empty, and the file may be gone once the
	// cluster has joined.
	JoinTokenFile string
	// Namespace is the agent's own, where it keeps its key and certificate.
	Namespace string
	// ServiceAccount is the name of the agent's own, in its namespace, by whose tokens
	// it proves itself to the hub; v1alpha1.DefaultSpokeServiceAccount when empty.
	ServiceAccount string
	// WatchNamespaces are the namespaces whose Renders are kept; all when empty.
	WatchNamespaces []string
	// StaleAfter is how long the hub may be away before Renders say so; ten minutes
	// when zero. It is lengthened by up to a fifth, at random.
	StaleAfter time.Duration
	// MetricsBindAddress serves Prometheus metrics; "0" serves none.
	MetricsBindAddress string
	// LogLevel is shown and set beside the metrics, see telemetry.ServeLevel; nil for
	// not at all.
	LogLevel *slog.LevelVar
	// HealthProbeBindAddress serves /healthz and /readyz; "0" serves none.
	HealthProbeBindAddress string
	// PprofBindAddress serves /debug/pprof; empty serves none.
	PprofBindAddress string
	// Version of the agent, for people.
	Version string
	// Instance tells two agents of one cluster apart, for people: the pod's UID.
	// Random when empty.
	Instance string
	// Backoff between sessions; its zero value is the one for production.
	Backoff Backoff
}

// Validate checks the configuration, and that HubCAFile holds roots.
func (c *Config) Validate() error {
	if c.REST == nil {
		return errors.New("no configuration of the API server")
	}
	if err := c.validateHub(); err != nil {
		return err
	}
	for _, namespace := range append(slices.Clone(c.WatchNamespaces), c.Namespace) {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("namespace %q: %s", namespace, problems[0])
		}
	}
	if c.StaleAfter < 0 {
		return errors.New("stale after is negative")
	}
	return nil
}

// validateHub checks what is said of the hub, in the words of the flags that say it.
func (c *Config) validateHub() error {
	switch {
	case c.Cluster == "":
		return errors.New("--cluster is required: the name of this cluster's SpokeCluster on the hub")
	case c.HubAddress == "":
		return errors.New("--hub-address is required: host:port of the hub")
	case strings.Contains(c.HubAddress, "://"):
		return fmt.Errorf("--hub-address is host:port, without a scheme: %q", c.HubAddress)
	case c.HubCAFile == "":
		return errors.New("--hub-ca-file is required: a file with the hub's roots in PEM")
	}
	if problems := validation.IsDNS1123Label(c.Cluster); len(problems) > 0 {
		return fmt.Errorf("--cluster %q: %s", c.Cluster, problems[0])
	}
	if host, port, err := net.SplitHostPort(c.HubAddress); err != nil || host == "" || port == "" {
		return fmt.Errorf("--hub-address is host:port: %q", c.HubAddress)
	}
	// The file is read again at every connect. One that is wrong from the start is a
	// mistake that no waiting mends.
	if _, err := syncclient.ReadRoots(c.HubCAFile); err != nil {
		return fmt.Errorf("--hub-ca-file: %w", err)
	}
	return nil
}

// withDefaults fills in what may be empty.
func (c Config) withDefaults() Config {
	if c.HubServerName == "" {
		c.HubServerName = DefaultServerName
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = controller.DefaultStaleAfter
	}
	if c.TrustDomain == "" {
		c.TrustDomain = identity.DefaultTrustDomain
	}
	if c.ServiceAccount == "" {
		c.ServiceAccount = v1alpha1.DefaultSpokeServiceAccount
	}
	if c.Instance == "" {
		c.Instance = rand.Text()
	}
	return c
}
