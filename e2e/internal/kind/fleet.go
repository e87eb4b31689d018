package kind

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"dynamic-config.rs/fleet/e2e/internal/stage"
	"dynamic-config.rs/fleet/internal/testenv"
)

// StateVariable names, in the environment, the file by which a test program finds
// the fleet that another one has set up.
const StateVariable = "DYNAMIC_CONFIG_KIND"

// Options say what is set up.
type Options struct {
	// Root is the repository's.
	Root string
	// Dir keeps kubeconfigs, and the state for others; it must exist.
	Dir string
	// Helm is the helm to install with.
	Helm string
	// Spokes are the names of the spoke clusters.
	Spokes []string
	// HubArgs are further flags of the hub, SpokeArgs of the agents.
	HubArgs, SpokeArgs []string
}

// Fleet is the product on kind clusters. It is what the state file holds.
type Fleet struct {
	Options
	HubCluster    *Cluster
	SpokeClusters []*Cluster
	// HubAddress is where spokes reach the hub.
	HubAddress string
	// Gateway is this machine's address on the container network.
	Gateway string
	// ConsulURL and VaultURL are where pods and this machine reach the stores.
	ConsulURL, VaultURL string
}

// Start makes the clusters, installs stores and hub, and enrols every spoke. Stop
// takes down what is there, also after a failure.
func Start(ctx context.Context, o Options) (*Fleet, error) {
	f := &Fleet{Options: o, HubCluster: &Cluster{Name: "hub", Dir: filepath.Join(o.Dir, "hub")}}
	for _, name := range o.Spokes {
		f.SpokeClusters = append(f.SpokeClusters, &Cluster{Name: name, Dir: filepath.Join(o.Dir, name)})
	}
	for _, step := range []func(context.Context) error{f.createClusters, f.findAddresses, f.installHub, f.enrolSpokes, f.save} {
		if err := step(ctx); err != nil {
			return f, err
		}
	}
	return f, nil
}

// WithHubOn is a fleet of clusters of this one, with the hub's place on another of
// them. Nothing is installed.
func (f *Fleet) WithHubOn(ctx context.Context, hub *Cluster, spokes ...*Cluster) (*Fleet, error) {
	other := &Fleet{Options: f.Options, HubCluster: hub, SpokeClusters: spokes}
	return other, other.findAddresses(ctx)
}

// Stop deletes the clusters.
func (f *Fleet) Stop(ctx context.Context) error {
	var err error
	for _, c := range append([]*Cluster{f.HubCluster}, f.SpokeClusters...) {
		_, failed := run(ctx, "", "kind", "delete", "cluster", "--name", c.Name, "--kubeconfig", c.kubeconfig())
		err = errors.Join(err, failed)
	}
	return err
}

func (f *Fleet) createClusters(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := f.HubCluster.create(ctx); err != nil {
			return err
		}
		return f.HubCluster.Load(ctx, f.Root, "hub", "spoke", "consul", "vaultdev", "app")
	})
	for _, c := range f.SpokeClusters {
		group.Go(func() error {
			if err := c.create(ctx); err != nil {
				return err
			}
			return c.Load(ctx, f.Root, "spoke", "app")
		})
	}
	return group.Wait()
}

func (f *Fleet) findAddresses(ctx context.Context) error {
	node, err := f.HubCluster.Address(ctx)
	if err != nil {
		return err
	}
	at := func(port int) string { return net.JoinHostPort(node, strconv.Itoa(port)) }
	f.HubAddress, f.ConsulURL, f.VaultURL = at(hubPort), "http://"+at(consulPort), "http://"+at(vaultPort)
	text, err := run(ctx, "", "docker", "inspect", "-f", "{{.NetworkSettings.Networks.kind.Gateway}}", f.HubCluster.Node())
	f.Gateway = strings.TrimSpace(text)
	return err
}

func (f *Fleet) installHub(ctx context.Context) error {
	if err := f.installStores(ctx); err != nil {
		return err
	}
	if err := f.HubCluster.Install(ctx, f, "crds", "crds", nil); err != nil {
		return err
	}
	return f.HubCluster.Install(ctx, f, "hub", "hub", f.HubValues())
}

func (f *Fleet) enrolSpokes(ctx context.Context) error {
	hub := f.Stage(ctx).Hub
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range f.SpokeClusters {
		group.Go(func() error {
			if err := c.Install(ctx, f, "crds", "crds", nil); err != nil {
				return err
			}
			// As on the stage of processes.
			return f.Enrol(ctx, hub, c, Joining{Name: c.Name, Address: f.HubAddress, ByToken: i > 0})
		})
	}
	return group.Wait()
}

// StateFile is what Attach reads.
func (f *Fleet) StateFile() string { return filepath.Join(f.Dir, "state.json") }

func (f *Fleet) save(context.Context) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(f.StateFile(), text, 0o600)
}

// Attach finds the fleet that another program has started.
func Attach(stateFile string) (*Fleet, error) {
	text, err := os.ReadFile(stateFile)
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	if err := json.Unmarshal(text, f); err != nil {
		return nil, err
	}
	for _, c := range append([]*Cluster{f.HubCluster}, f.SpokeClusters...) {
		if err := c.connect(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Stage is the fleet as the stories know it. It works until ctx ends.
func (f *Fleet) Stage(ctx context.Context) *stage.Stage {
	s := &stage.Stage{
		Hub:        stage.NewDeployedHub(f.HubCluster.Cluster, f.HubAddress, hubReplicas, newPods(ctx, f.HubCluster, "dynamic-config-hub", hubReplicas)),
		ListenHost: f.Gateway,
	}
	for _, c := range f.SpokeClusters {
		s.Spokes = append(s.Spokes, stage.NewDeployedSpoke(c.Cluster, c.Name, s.Hub, newPods(ctx, c, "dynamic-config-spoke", 1)))
	}
	return s
}

// Consul is the Consul of the hub cluster.
func (f *Fleet) Consul() *testenv.ConsulServer {
	return testenv.ConnectConsul(f.ConsulURL, consulToken)
}

// Vault is the Vault of the hub cluster.
func (f *Fleet) Vault() *testenv.VaultServer { return testenv.ConnectVault(f.VaultURL, vaultToken) }
