package stage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/identity"
	"dynamic-config.rs/fleet/internal/testenv"
)

const (
	hubAccount   = "dynamic-config-hub"
	spokeAccount = "dynamic-config-spoke"
	loopback     = "127.0.0.1:"
	// caConfigMap is where the hub publishes its roots.
	caConfigMap = "dynamic-config-hub-ca"
	// tokenLifetime of a join token, as the product's documentation says.
	tokenLifetime = time.Hour
)

// Hub is the hub cluster and the replicas of the hub, behind one address.
type Hub struct {
	*testenv.Cluster
	// Proxy leads spokes to the replicas.
	Proxy *testenv.Proxy
	// Replicas that run, or ran and are to run again.
	Replicas []*Replica
	// Address that spokes connect to, the proxy's; it stays over a restart.
	Address string
	// MetricsURL is the first replica's /metrics, HealthURL its /readyz.
	MetricsURL, HealthURL string

	args   []string
	binary string
	// routed are the replicas that the proxy leads to.
	routed []*Replica
	// deployed takes the place of the replicas where somebody else runs them; serving
	// is how many it runs then.
	deployed Deployed
	serving  int
}

// Start starts the hub with one replica and waits until it is ready; somebody else's
// with as many as that one runs. The further flags are for this start alone.
func (h *Hub) Start(ctx context.Context, flags ...string) error {
	if h.deployed != nil {
		return h.deployed.Start(ctx, flags...)
	}
	return h.Scale(ctx, 1, flags...)
}

// Serving is how many replicas serve at the same time after a Start.
func (h *Hub) Serving() int { return max(1, h.serving) }

// Scale has n replicas run and leads spokes to them: the first n, started where they do
// not run, with further flags if there are any. Those beyond n are asked to end.
func (h *Hub) Scale(ctx context.Context, n int, flags ...string) error {
	if h.Proxy == nil {
		proxy, err := testenv.StartProxy(ctx)
		if err != nil {
			return err
		}
		h.Proxy, h.Address = proxy, proxy.Address
	}
	for len(h.Replicas) < n {
		h.Replicas = append(h.Replicas, &Replica{Name: fmt.Sprintf("hub-%d", len(h.Replicas)), hub: h})
	}
	for _, r := range h.Replicas[:n] {
		if err := r.Start(ctx, flags...); err != nil {
			return err
		}
	}
	h.Route(h.Replicas[:n]...)
	var ends errgroup.Group
	for _, r := range h.Replicas[n:] {
		ends.Go(func() error { return r.Terminate(ctx) })
	}
	return ends.Wait()
}

// Route leads new connections of spokes to these replicas in turn.
func (h *Hub) Route(replicas ...*Replica) {
	h.routed = replicas
	var addresses []string
	for _, r := range replicas {
		addresses = append(addresses, r.Address)
	}
	h.Proxy.Route(addresses...)
}

// replicaMoved follows a replica that listens elsewhere from now on.
func (h *Hub) replicaMoved() {
	h.MetricsURL, h.HealthURL = h.Replicas[0].MetricsURL, "http://"+h.Replicas[0].health+"/readyz"
	h.Route(h.routed...)
}

// Kill ends every replica as kill -9 does.
func (h *Hub) Kill() {
	if h.deployed != nil {
		h.deployed.Kill()
	}
	for _, r := range h.Replicas {
		r.Kill()
	}
}

// Terminate asks every replica to end, as a kubelet does, and waits for them.
func (h *Hub) Terminate(ctx context.Context) error {
	if h.deployed != nil {
		return h.deployed.Terminate(ctx)
	}
	var ends errgroup.Group
	for _, r := range h.Replicas {
		ends.Go(func() error { return r.Terminate(ctx) })
	}
	return ends.Wait()
}

// Log is everything that the replicas wrote.
func (h *Hub) Log() ([]byte, error) {
	if h.deployed != nil {
		return h.deployed.Log()
	}
	var all []byte
	for _, r := range h.Replicas {
		log, err := r.Log()
		if err != nil {
			return nil, err
		}
		all = append(all, log...)
	}
	return all, nil
}

// Audit is every whole line of the replicas' audit logs, runs before this one included;
// of pods, those of the pods that are there. A line may be on its way to the file.
func (h *Hub) Audit() ([]byte, error) {
	if h.deployed != nil {
		return auditLines(h.deployed.Log())
	}
	var all []byte
	for _, r := range h.Replicas {
		lines, err := os.ReadFile(r.auditLog())
		if err != nil {
			return nil, err
		}
		all = append(all, lines[:bytes.LastIndexByte(lines, '\n')+1]...)
	}
	return all, nil
}

// CA is the hub's roots in PEM, as the hub publishes them.
func (h *Hub) CA(ctx context.Context) (string, error) {
	cm := &corev1.ConfigMap{}
	err := h.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: caConfigMap}, cm)
	return cm.Data["ca.crt"], err
}

// Register makes the accepted SpokeCluster of a name whose keys are known, as an
// administrator does who can reach both clusters.
func (h *Hub) Register(ctx context.Context, name string, keys *v1alpha1.ClusterKeys) error {
	return h.register(ctx, name, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: keys})
}

// RegisterToJoin makes the accepted SpokeCluster of a name whose keys are not known,
// with a fresh join token, and returns the token.
func (h *Hub) RegisterToJoin(ctx context.Context, name string) (string, error) {
	token, hash := identity.NewJoinToken()
	return token, h.register(ctx, name, v1alpha1.SpokeClusterSpec{
		Accepted:  true,
		JoinToken: &v1alpha1.JoinToken{SHA256: hash, ExpiresAt: metav1.NewTime(time.Now().Add(tokenLifetime))},
	})
}

func (h *Hub) register(ctx context.Context, name string, spec v1alpha1.SpokeClusterSpec) error {
	return h.Client.Create(ctx, &v1alpha1.SpokeCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"fleet": "e2e"}}, Spec: spec,
	})
}

// write keeps a file that only its owner may read.
func write(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}
