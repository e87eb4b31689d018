package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// Hub is the hub cluster and its hub process.
type Hub struct {
	*testenv.Cluster
	// Address that spokes connect to; it stays over a restart.
	Address string
	// MetricsURL is the /metrics of a hub that is one process.
	MetricsURL string

	args    []string
	binary  string
	health  string
	program *testenv.Program
	// deployed takes the place of the process where somebody else runs it.
	deployed Deployed
	replicas int
}

// Start starts the hub process and waits until it is ready. The further flags are for
// this start alone.
func (h *Hub) Start(ctx context.Context, flags ...string) error {
	if h.deployed != nil {
		return h.deployed.Start(ctx, flags...)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if h.Address == "" {
		ports, err := testenv.FreePorts(ctx, 3)
		if err != nil {
			return err
		}
		h.Address, h.health = loopback+ports[0], loopback+ports[1]
		h.MetricsURL = "http://" + loopback + ports[2] + "/metrics"
	}
	kubeconfig, err := h.ServiceAccountKubeconfig(ctx, Namespace, hubAccount)
	if err != nil {
		return err
	}
	metrics := strings.TrimSuffix(strings.TrimPrefix(h.MetricsURL, "http://"), "/metrics")
	args, err := knownTo(ctx, h.binary, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + Namespace, "--replica=hub-0",
		"--listen-address=" + h.Address, "--server-names=127.0.0.1",
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + h.health,
		"--log-level=debug", "--audit-log=" + h.auditLog(),
	}, slices.Concat(h.args, flags)...))
	if err != nil {
		return err
	}
	if h.program, err = testenv.StartProgram(ctx, h.Dir, "hub", h.binary, args...); err != nil {
		return err
	}
	// What a kubelet asks: ready, then alive.
	if err := h.program.WaitReady(ctx, probe("http://"+h.health+"/readyz")); err != nil {
		return err
	}
	return probe("http://" + h.health + "/healthz")(ctx)
}

// Kill ends the hub process as kill -9 does.
func (h *Hub) Kill() {
	if h.deployed != nil {
		h.deployed.Kill()
	}
	if h.program != nil {
		h.program.Kill()
	}
}

// Terminate asks the hub process to end, as a kubelet does, and waits for it.
func (h *Hub) Terminate(ctx context.Context) error {
	if h.deployed != nil {
		return h.deployed.Terminate(ctx)
	}
	return h.program.Terminate(ctx)
}

// Log is everything the hub process wrote.
func (h *Hub) Log() ([]byte, error) {
	if h.deployed != nil {
		return h.deployed.Log()
	}
	return h.program.Log()
}

func (h *Hub) auditLog() string { return filepath.Join(h.Dir, "audit.log") }

// Audit is every line of the audit log, runs before this one included; of pods, those
// of the pods that are there.
func (h *Hub) Audit() ([]byte, error) {
	if h.deployed == nil {
		return os.ReadFile(h.auditLog())
	}
	text, err := h.deployed.Log()
	var lines []byte
	for line := range bytes.Lines(text) {
		if bytes.Contains(line, []byte(`"logger":"audit"`)) {
			lines = append(lines, line...)
		}
	}
	return lines, err
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

// probe asks a health endpoint.
func probe(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
			return fmt.Errorf("%s: %s: %s", url, resp.Status, said)
		}
		return nil
	}
}

// write keeps a file that only its owner may read.
func write(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}
