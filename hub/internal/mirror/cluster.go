package mirror

import (
	"context"
	"net/http"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// virtualCluster is a spoke as multicluster-runtime sees it: a cache to read from.
type virtualCluster struct {
	name   string
	source *source
	cache  *renderCache
	client client.Client
}

var _ cluster.Cluster = (*virtualCluster)(nil)

func newVirtualCluster(name string, scheme *runtime.Scheme) *virtualCluster {
	mapper := apimeta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.Add(v1alpha1.GroupVersion.WithKind("DynamicConfigRender"), apimeta.RESTScopeNamespace)
	src := newSource()
	c := newRenderCache(scheme, src)
	return &virtualCluster{name: name, source: src, cache: c, client: &readOnlyClient{Reader: c, scheme: scheme, mapper: mapper}}
}

// GetHTTPClient is nil: no spoke is reached by HTTP.
func (c *virtualCluster) GetHTTPClient() *http.Client { return nil }

// GetConfig has a host that no client can reach, and that a person can read.
func (c *virtualCluster) GetConfig() *rest.Config { return &rest.Config{Host: "session://" + c.name} }

// GetCache is the mirror of the spoke's Renders.
func (c *virtualCluster) GetCache() cache.Cache { return c.cache }

// GetScheme is the hub's scheme.
func (c *virtualCluster) GetScheme() *runtime.Scheme { return c.client.Scheme() }

// GetClient reads the mirror and writes nothing.
func (c *virtualCluster) GetClient() client.Client { return c.client }

// GetFieldIndexer indexes the mirror.
func (c *virtualCluster) GetFieldIndexer() client.FieldIndexer { return c.cache }

// GetRESTMapper knows Renders only.
func (c *virtualCluster) GetRESTMapper() apimeta.RESTMapper { return c.client.RESTMapper() }

// GetAPIReader is the mirror too: there is no live read of a spoke.
func (c *virtualCluster) GetAPIReader() client.Reader { return c.cache }

// GetEventRecorderFor drops events: the spoke emits its own.
func (c *virtualCluster) GetEventRecorderFor(string) record.EventRecorder {
	return &record.FakeRecorder{}
}

// GetEventRecorder drops events: the spoke emits its own.
func (c *virtualCluster) GetEventRecorder(string) events.EventRecorder {
	return &events.FakeRecorder{}
}

// Start runs the informer until the context ends.
func (c *virtualCluster) Start(ctx context.Context) error { return c.cache.Start(ctx) }
