package kind

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed stores.yaml
var stores string

const (
	consulPort, vaultPort = 30500, 30200
	// consulToken may do anything. Consul wants a UUID.
	consulToken = "11111111-2222-4333-8444-555555555555"
	vaultToken  = "root"
)

// installStores runs Consul and Vault in the hub cluster.
func (f *Fleet) installStores(ctx context.Context) error {
	if _, err := f.HubCluster.Kubectl(ctx, fmt.Sprintf(stores, prefix, consulToken, consulPort, vaultPort), "apply", "-f", "-"); err != nil {
		return err
	}
	_, err := f.HubCluster.Kubectl(ctx, "", "wait", "-n", "stores", "--for=condition=Available", "--timeout=10m", "deployment/consul", "deployment/vault")
	return err
}
