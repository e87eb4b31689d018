package kind

import (
	"context"
	"encoding/json"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// prefix of the product's images, as the Makefile names them for this run.
const prefix = "dynamic-config.e2e/"

// hubPort is the hub's port on the node.
const hubPort = 30443

// hubReplicas is the chart's own default.
const hubReplicas = 2

// Values are a chart's.
type Values map[string]any

// Install installs or upgrades a release of a chart of the product, or of the folder
// of another one, and waits until it is ready. Flags that a story has added by hand go.
func (c *Cluster) Install(ctx context.Context, f *Fleet, release, chart string, values Values) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	_, err = run(ctx, string(text), f.Helm, "--kubeconfig", c.kubeconfig(), "upgrade", "--install", release, f.chart(chart),
		"--namespace", stage.Namespace, "--create-namespace", "--values", "-", "--force-conflicts", "--wait", "--timeout", "10m")
	return err
}

// Uninstall removes a release and waits until it is gone.
func (c *Cluster) Uninstall(ctx context.Context, f *Fleet, release string) error {
	_, err := run(ctx, "", f.Helm, "--kubeconfig", c.kubeconfig(), "uninstall", release, "--namespace", stage.Namespace, "--wait", "--timeout", "10m")
	return err
}

// chart is the folder of a chart.
func (f *Fleet) chart(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.Root, "deploy", "charts", name)
}

// HubValues are those that the hub of the run is installed with.
func (f *Fleet) HubValues() Values {
	return Values{
		"image":     image("hub"),
		"service":   Values{"type": "NodePort", "nodePort": hubPort, "externalTrafficPolicy": "Local"},
		"log":       Values{"level": "debug"},
		"extraArgs": f.HubArgs,
		"resources": Values{"requests": Values{"cpu": "10m", "memory": "32Mi"}},
	}
}

// Joining says how a cluster joins the hub.
type Joining struct {
	// Name of the cluster's SpokeCluster.
	Name string
	// Address of the hub, as the agent reaches it.
	Address string
	// ByToken lets the agent bring its cluster's keys with a join token; otherwise the
	// hub is told them.
	ByToken bool
}

// Enrol registers a cluster on the hub and installs its agent, as docs/install.md
// tells it.
func (f *Fleet) Enrol(ctx context.Context, hub *stage.Hub, c *Cluster, j Joining) error {
	roots, err := hub.CA(ctx)
	if err != nil {
		return err
	}
	values := Values{
		"cluster":   j.Name,
		"hub":       Values{"address": j.Address, "ca": Values{"pem": roots}},
		"image":     image("spoke"),
		"log":       Values{"level": "debug"},
		"extraArgs": f.SpokeArgs,
		"resources": Values{"requests": Values{"cpu": "10m", "memory": "32Mi"}},
	}
	if j.ByToken {
		values["joinToken"] = Values{"secret": Values{"name": joinSecret}}
		err = joinByToken(ctx, hub, c, j.Name)
	} else {
		err = registerKeys(ctx, hub, c, j.Name)
	}
	if err != nil {
		return err
	}
	return c.Install(ctx, f, "spoke", "spoke", values)
}

// joinSecret is the Secret with a join token in a spoke cluster.
const joinSecret = "join-token"

func joinByToken(ctx context.Context, hub *stage.Hub, c *Cluster, name string) error {
	token, err := hub.RegisterToJoin(ctx, name)
	if err != nil {
		return err
	}
	return c.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: stage.Namespace, Name: joinSecret},
		StringData: map[string]string{"token": token},
	})
}

func registerKeys(ctx context.Context, hub *stage.Hub, c *Cluster, name string) error {
	keys, err := stage.NewDeployedSpoke(c.Cluster, name, hub, nil).Keys(ctx)
	if err != nil {
		return err
	}
	return hub.Register(ctx, name, keys)
}

func image(command string) Values {
	return Values{"repository": prefix + command, "tag": "e2e", "pullPolicy": "Never"}
}
