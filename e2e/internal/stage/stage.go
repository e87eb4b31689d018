package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/testenv"
)

// Namespace of the hub and of the agents.
const Namespace = "dynamic-config-system"

// module is the line by which the repository's root is found.
const module = "module dynamic-config.rs/fleet\n"

// startTimeout bounds the start of one process of ours, on a busy machine.
const startTimeout = 90 * time.Second

// TestHubArgs are flags of a hub whose heartbeats and rotations tests wait for.
func TestHubArgs() []string { return []string{"--heartbeat=2s", "--ca-rotation-grace=1s"} }

// TestSpokeArgs are flags of agents whose reconnections tests wait for.
func TestSpokeArgs() []string {
	return []string{"--reconnect-after-session=1s", "--reconnect-min=200ms", "--reconnect-max=2s"}
}

// From is the address from which the hub sees this process connect.
func (s *Stage) From() string { return cmp.Or(s.ListenHost, "127.0.0.1") }

// Options say what is set up.
type Options struct {
	// Dir keeps kubeconfigs and logs; it must exist.
	Dir string
	// Spokes are the names of the spoke clusters.
	Spokes []string
	// HubArgs are further flags of the hub.
	HubArgs []string
	// SpokeArgs are further flags of the agents.
	SpokeArgs []string
	// HubBinary and SpokeBinary are run instead of those in bin. Of the flags, they
	// get those that they know: they may be of another version.
	HubBinary, SpokeBinary string
}

// Stage is a fleet that runs.
type Stage struct {
	Hub    *Hub
	Spokes []*Spoke
	// ListenHost is the host on which a server of this process is reached by the
	// hub; loopback when empty.
	ListenHost string

	root string
}

// Start brings up the clusters, the hub and the agents, and enrols every spoke: the
// first by its keys, the others by a join token.
// What it started is stopped again when something fails.
func Start(ctx context.Context, o Options) (*Stage, error) {
	s, err := Clusters(ctx, o)
	if err != nil {
		return nil, err
	}
	err = s.Hub.Start(ctx)
	for i, spoke := range s.Spokes {
		if err == nil {
			err = spoke.Enrol(ctx, i > 0)
		}
		if err == nil {
			err = spoke.Start(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Clusters brings up the clusters with the product's objects installed, and starts
// none of its programs.
func Clusters(ctx context.Context, o Options) (*Stage, error) {
	root, err := FindRoot()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	options := []testenv.Options{{Dir: filepath.Join(dir, "hub")}}
	for _, name := range o.Spokes {
		options = append(options, testenv.Options{Dir: filepath.Join(dir, name)})
	}
	clusters, err := testenv.StartAll(ctx, options...)
	if err != nil {
		return nil, err
	}
	s := &Stage{root: root, Hub: &Hub{
		Cluster: clusters[0], args: o.HubArgs, binary: cmp.Or(o.HubBinary, filepath.Join(root, "bin", "hub")),
	}}
	for i, name := range o.Spokes {
		s.Spokes = append(s.Spokes, &Spoke{
			Cluster: clusters[i+1], Name: name, hub: s.Hub, args: o.SpokeArgs,
			binary: cmp.Or(o.SpokeBinary, filepath.Join(root, "bin", "spoke")),
		})
	}
	if err := s.install(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// install applies what deploy holds: namespaces, ServiceAccounts and their rights.
func (s *Stage) install(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return install(ctx, s.Hub.Cluster, s.root, "hub") })
	for _, spoke := range s.Spokes {
		group.Go(func() error { return install(ctx, spoke.Cluster, s.root, "spoke") })
	}
	return group.Wait()
}

// install applies the base of hub or spoke to a cluster. The program runs as a process
// of ours, so the Deployment wants no pod: no kubelet would run it.
func install(ctx context.Context, c *testenv.Cluster, root, base string) error {
	if err := c.ApplyDir(ctx, filepath.Join(root, "deploy", "kustomize", base)); err != nil {
		return err
	}
	list := &appsv1.DeploymentList{}
	if err := c.Client.List(ctx, list, client.InNamespace(Namespace)); err != nil {
		return err
	}
	none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
	for i := range list.Items {
		if err := c.Client.Patch(ctx, &list.Items[i], none); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends every process that the stage started.
func (s *Stage) Stop() error {
	if s.Hub.deployed != nil {
		return nil
	}
	var err error
	for _, spoke := range s.Spokes {
		spoke.Kill()
		err = errors.Join(err, spoke.Stop())
	}
	s.Hub.Kill()
	if s.Hub.Proxy != nil {
		s.Hub.Proxy.Stop()
	}
	return errors.Join(err, s.Hub.Stop())
}

// Spoke returns the spoke of a name.
func (s *Stage) Spoke(name string) *Spoke {
	for _, spoke := range s.Spokes {
		if spoke.Name == name {
			return spoke
		}
	}
	return nil
}

// FindRoot walks up to the repository's root.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), module) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of the product above the working directory")
		}
		dir = parent
	}
}
