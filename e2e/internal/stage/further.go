package stage

import (
	"context"
	"errors"
	"path/filepath"

	"dynamic-config.rs/fleet/internal/testenv"
)

// Further brings up one more spoke cluster, for a hub that another process runs and
// that agents reach at hubAddress. Nobody has enrolled it, and its agent does not run;
// caFile is where the hub's roots will be by the agent's start. Its Cluster is to be
// stopped.
func Further(ctx context.Context, dir, name, hubAddress, caFile string) (*Spoke, error) {
	root, err := FindRoot()
	if err != nil {
		return nil, err
	}
	cluster, err := testenv.Start(ctx, testenv.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	if err := install(ctx, cluster, root, "spoke"); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return &Spoke{
		Cluster: cluster, Name: name, hub: &Hub{Address: hubAddress}, caFile: caFile,
		binary: filepath.Join(root, "bin", "spoke"),
	}, nil
}

// Exited is closed when the agent process has ended.
func (s *Spoke) Exited() <-chan struct{} { return s.program.Exited() }
