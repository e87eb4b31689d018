package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"dynamic-config.rs/fleet/internal/testenv"
)

// config is a cluster of one node.
const config = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking:
  disableDefaultCNI: true # the node image brings a network for one node
kubeadmConfigPatches:
  - |
    kind: ClusterConfiguration
    # Nobody to elect on one node, and a busy machine loses a lease.
    controllerManager: {extraArgs: [{name: leader-elect, value: "false"}]}
    scheduler: {extraArgs: [{name: leader-elect, value: "false"}]}
  - |
    kind: KubeletConfiguration
    failCgroupV1: false # matters on hosts with cgroup v1 alone
    syncFrequency: 5s   # mounted Secrets refresh in seconds, not in a minute
    configMapAndSecretChangeDetectionStrategy: Watch
    resolvConf: /kind/pod-resolv.conf # no DNS of outside: nothing leaves the machine
nodes:
  - role: control-plane
    image: %s
`

// Cluster is a kind cluster.
type Cluster struct {
	*testenv.Cluster `json:"-"`
	// Name of the cluster, as kind knows it.
	Name string
	// Dir holds its kubeconfig.
	Dir string
}

// create makes the cluster.
func (c *Cluster) create(ctx context.Context) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	image := os.Getenv("KIND_NODE_IMAGE")
	if image == "" {
		return fmt.Errorf("no KIND_NODE_IMAGE: run it by tools/kind/run.sh")
	}
	_, err := run(ctx, fmt.Sprintf(config, image), "kind", "create", "cluster", "--name", c.Name,
		"--config", "-", "--wait", "5m", "--kubeconfig", c.kubeconfig())
	if err != nil {
		return err
	}
	return c.connect()
}

func (c *Cluster) kubeconfig() string { return filepath.Join(c.Dir, "admin.kubeconfig") }

// connect makes the administrator's client of a cluster that runs.
func (c *Cluster) connect() error {
	rest, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig())
	if err != nil {
		return err
	}
	rest.QPS = -1 // a test is not to wait for its own client
	client, err := testenv.NewClient(rest)
	if err != nil {
		return err
	}
	c.Cluster = &testenv.Cluster{Config: rest, Kubeconfig: c.kubeconfig(), Client: client, Dir: c.Dir}
	return nil
}

// Node is the name of its only node, a container.
func (c *Cluster) Node() string { return c.Name + "-control-plane" }

// Address is the node's on the container network, where other clusters reach its
// NodePorts.
func (c *Cluster) Address(ctx context.Context) (string, error) {
	text, err := run(ctx, "", "docker", "inspect", "-f", "{{.NetworkSettings.Networks.kind.IPAddress}}", c.Node())
	return strings.TrimSpace(text), err
}

// Load brings images, archives of out/images, into the node.
func (c *Cluster) Load(ctx context.Context, root string, images ...string) error {
	for _, image := range images {
		archive := filepath.Join(root, "out", "images", image+".tar")
		if _, err := run(ctx, "", "kind", "load", "image-archive", archive, "--name", c.Name); err != nil {
			return err
		}
	}
	return nil
}

// Kubectl runs kubectl as administrator.
func (c *Cluster) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	return run(ctx, stdin, "kubectl", append([]string{"--kubeconfig", c.kubeconfig()}, args...)...)
}

// OnNode runs a command on the node.
func (c *Cluster) OnNode(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "", "docker", append([]string{"exec", c.Node()}, args...)...)
}

// Disk copies what the node keeps: etcd, and the logs of every pod.
func (c *Cluster) Disk(ctx context.Context) (string, error) {
	dir := filepath.Join(c.Dir, "disk")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, path := range []string{"/var/lib/etcd", "/var/log/pods", "/var/lib/kubelet/pods"} {
		if _, err := run(ctx, "", "docker", "cp", c.Node()+":"+path, filepath.Join(dir, filepath.Base(filepath.Dir(path))+"-"+filepath.Base(path))); err != nil {
			return "", err
		}
	}
	return dir, nil
}
