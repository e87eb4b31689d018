package testenv

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/deploy/crds"
)

// installCRDs creates our CustomResourceDefinitions and waits until the API
// server serves every one.
func installCRDs(ctx context.Context, config *rest.Config, c client.Client) error {
	all, err := crds.All()
	if err != nil {
		return err
	}
	for _, crd := range all {
		if err := c.Create(ctx, crd); err != nil {
			return fmt.Errorf("create %s: %w", crd.Name, err)
		}
	}
	names, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		served, err := names.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		if err != nil {
			return false, nil //nolint:nilerr // not there yet: the context bounds the wait
		}
		kinds := map[string]bool{}
		for _, resource := range served.APIResources {
			kinds[resource.Name] = true
		}
		for _, crd := range all {
			if !kinds[crd.Spec.Names.Plural] {
				return false, nil
			}
		}
		return true, nil
	})
}
