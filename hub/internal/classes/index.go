package classes

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// secretIndex is the field that classes are indexed by: the Secrets that they name.
const secretIndex = "secrets"

// IndexSecrets has a cache find classes by the Secrets that they name; once for each
// cache, before it starts.
func IndexSecrets(ctx context.Context, indexer client.FieldIndexer) error {
	for _, o := range []client.Object{&v1alpha1.ClusterDynamicConfigClass{}, &v1alpha1.DynamicConfigClass{}} {
		if err := indexer.IndexField(ctx, o, secretIndex, secretsOf); err != nil {
			return err
		}
	}
	return nil
}

// UsingSecret reads the classes whose credential, CA or client certificate is in a
// Secret, from a cache that IndexSecrets prepared.
func (r *Resolver) UsingSecret(ctx context.Context, namespace, name string) ([]*Class, error) {
	return r.list(ctx, client.MatchingFields{secretIndex: secretName(namespace, name)})
}

// secretsOf are the Secrets that a class of either kind names.
func secretsOf(o client.Object) []string {
	var c *Class
	switch o := o.(type) {
	case *v1alpha1.ClusterDynamicConfigClass:
		c = fromCluster(o)
	case *v1alpha1.DynamicConfigClass:
		c = fromNamespaced(o)
	default:
		return nil
	}
	var names []string
	for _, s := range []*secretKey{c.token, c.ca, c.cert, c.key} {
		if s != nil {
			names = append(names, secretName(s.namespace, s.name))
		}
	}
	return names
}

func secretName(namespace, name string) string { return namespace + "/" + name }
