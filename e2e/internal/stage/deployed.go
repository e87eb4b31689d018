package stage

import (
	"bytes"
	"context"

	"dynamic-config.rs/fleet/internal/testenv"
)

// Deployed is a hub or an agent that somebody else runs, as pods say. What a Hub and
// a Spoke do with a process of their own, they ask of it.
type Deployed interface {
	// Start makes it run with further flags, when it does not, and waits until it is
	// ready.
	Start(ctx context.Context, flags ...string) error
	// Kill ends it as kill -9 does. It stays away until Start.
	Kill()
	// Terminate asks it to end, and waits. It stays away until Start.
	Terminate(ctx context.Context) error
	// Log is what it wrote since it started.
	Log() ([]byte, error)
	// Disk copies what its cluster keeps on disk to a folder.
	Disk(ctx context.Context) (string, error)
}

// NewDeployedHub is the hub at an address, of which some replicas run already. It has
// no Replicas to handle one by one, and no MetricsURL: a Service shows the metrics of
// one or the other.
func NewDeployedHub(cluster *testenv.Cluster, address string, replicas int, deployed Deployed) *Hub {
	return &Hub{Cluster: cluster, Address: address, serving: replicas, deployed: deployed}
}

// NewDeployedSpoke is the agent of a cluster of a name, which has joined already.
func NewDeployedSpoke(cluster *testenv.Cluster, name string, hub *Hub, deployed Deployed) *Spoke {
	return &Spoke{Cluster: cluster, Name: name, hub: hub, deployed: deployed}
}

// Disk is a folder with everything that the hub's cluster keeps on disk.
func (h *Hub) Disk(ctx context.Context) (string, error) { return disk(ctx, h.Cluster, h.deployed) }

// Disk is a folder with everything that the spoke's cluster keeps on disk.
func (s *Spoke) Disk(ctx context.Context) (string, error) { return disk(ctx, s.Cluster, s.deployed) }

// auditLines are the lines of the audit log in a pod's output.
func auditLines(output []byte, err error) ([]byte, error) {
	var lines []byte
	for line := range bytes.Lines(output) {
		if bytes.Contains(line, []byte(`"logger":"audit"`)) {
			lines = append(lines, line...)
		}
	}
	return lines, err
}

func disk(ctx context.Context, c *testenv.Cluster, deployed Deployed) (string, error) {
	if deployed != nil {
		return deployed.Disk(ctx)
	}
	return c.Dir, nil
}
