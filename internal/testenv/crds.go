package testenv

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextCancel(ctx, probeEvery, true, func(ctx context.Context) (bool, error) {
		last = served(ctx, api, all)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; the API server last answered: %w", err, last)
	}
	return nil
}

// served says whether every kind is discovered and can be listed.
func served(ctx context.Context, api *discovery.DiscoveryClient, all []*apiextensionsv1.CustomResourceDefinition) error {
	group := v1alpha1.GroupVersion
	list := &metav1.APIResourceList{}
	base := []string{"apis", group.Group, group.Version}
	if err := api.RESTClient().Get().AbsPath(base...).MaxRetries(0).Do(ctx).Into(list); err != nil {
		return err
	}
	discovered := map[string]bool{}
	for _, resource := range list.APIResources {
		discovered[resource.Name] = true
	}
	for _, crd := range all {
		name := crd.Spec.Names.Plural
		if !discovered[name] {
			return fmt.Errorf("%s is not discovered yet", name)
		}
		// The first request for a kind fills its cache and is refused with 429
		// meanwhile: better here than in a test.
		err := api.RESTClient().Get().AbsPath(append(base, name)...).MaxRetries(0).Do(ctx).Error()
		if err != nil {
			return err
		}
	}
	return nil
}
