package mirror

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// Provider is the set of virtual clusters, one a SpokeCluster that ever had a whole
// inventory here. It is safe for concurrent use.
type Provider struct {
	scheme *runtime.Scheme
	// started is closed by Run, after run and aware are set.
	started chan struct{}
	run     context.Context //nolint:containedctx // the parent of every cluster's context: a cluster outlives the call that adds it
	aware   multicluster.Aware

	// mu guards clusters and indexes.
	mu       sync.Mutex
	clusters map[string]*engaged
	indexes  []index
}

type engaged struct {
	*virtualCluster
	// run ends with cancel: by Forget, at the latest by the manager's end.
	run    context.Context //nolint:containedctx // the cluster outlives the call that adds it
	cancel context.CancelFunc
}

type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

var _ multicluster.Provider = (*Provider)(nil)

// NewProvider returns a provider without clusters. The scheme must know Renders.
func NewProvider(scheme *runtime.Scheme) *Provider {
	return &Provider{scheme: scheme, started: make(chan struct{}), clusters: map[string]*engaged{}}
}

// Run lets clusters be engaged with a multicluster manager until the context ends.
// It is no Start on purpose: the manager would start that on the leader only, and
// every replica serves the spokes that are connected to it.
func (p *Provider) Run(ctx context.Context, aware multicluster.Aware) error {
	p.run, p.aware = ctx, aware
	close(p.started)
	<-ctx.Done()
	return nil
}

// Get returns the virtual cluster of a spoke, or ErrClusterNotFound.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.clusters[name.String()]; ok {
		return c, nil
	}
	return nil, multicluster.ErrClusterNotFound
}

// IndexField indexes Renders by a field in every cluster, current and future.
func (p *Provider) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.indexes = append(p.indexes, index{obj, field, extract})
	for _, c := range p.clusters {
		if err := c.cache.IndexField(ctx, obj, field, extract); err != nil {
			return err
		}
	}
	return nil
}

// Replace sets the whole inventory of a spoke. The first one engages its virtual
// cluster with the manager.
func (p *Provider) Replace(ctx context.Context, name string, renders []*v1alpha1.DynamicConfigRender) error {
	select {
	case <-p.started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c, indexes, known := p.ensure(name)
	c.source.replace(renders)
	if known {
		return nil
	}
	if err := p.engage(c, indexes); err != nil { //nolint:contextcheck // a cluster outlives the call that brought its first inventory
		p.forget(c)
		return fmt.Errorf("engage cluster %s: %w", name, err)
	}
	return nil
}

// ensure returns the virtual cluster of a spoke, with the indexes that a new one
// still lacks.
func (p *Provider) ensure(name string) (c *engaged, indexes []index, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, known = p.clusters[name]; known {
		return c, nil, true
	}
	c = &engaged{virtualCluster: newVirtualCluster(name, p.scheme)}
	c.run, c.cancel = context.WithCancel(p.run)
	p.clusters[name] = c
	return c, slices.Clone(p.indexes), false
}

// engage starts a virtual cluster and hands it to the manager. It comes after the
// first inventory: an engage waits for the cache and would hold up all others.
func (p *Provider) engage(c *engaged, indexes []index) error {
	ctx := c.run
	for _, ix := range indexes {
		if err := c.cache.IndexField(ctx, ix.object, ix.field, ix.extract); err != nil {
			return err
		}
	}
	go func() { _ = c.Start(ctx) }() // ended by Forget or the manager's end; returns no error
	if !c.cache.WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	return p.aware.Engage(ctx, multicluster.ClusterName(c.name), c)
}

// Upsert sets one Render of a spoke.
func (p *Provider) Upsert(name string, render *v1alpha1.DynamicConfigRender) {
	if c := p.cluster(name); c != nil {
		c.source.upsert(render)
	}
}

// Remove forgets one Render of a spoke.
func (p *Provider) Remove(name, namespace, render string) {
	if c := p.cluster(name); c != nil {
		c.source.remove(types.NamespacedName{Namespace: namespace, Name: render})
	}
}

// Version changes with whatever is said of a spoke.
func (p *Provider) Version(name string) uint64 {
	if c := p.cluster(name); c != nil {
		return c.source.latest()
	}
	return 0
}

// Empty forgets the Renders of a spoke that has no session here any more, unless
// anything was said of it since a version: it may be with another replica for good.
func (p *Provider) Empty(name string, version uint64) {
	if c := p.cluster(name); c != nil {
		c.source.empty(version)
	}
}

// Forget ends the virtual cluster of a spoke whose SpokeCluster is gone.
func (p *Provider) Forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.clusters[name]; ok {
		delete(p.clusters, name)
		c.cancel()
	}
}

// forget ends a virtual cluster, and not another that took its place.
func (p *Provider) forget(c *engaged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.cancel()
	if p.clusters[c.name] == c {
		delete(p.clusters, c.name)
	}
}

// Names returns the spokes that have a virtual cluster.
func (p *Provider) Names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := make([]string, 0, len(p.clusters))
	for name := range p.clusters {
		names = append(names, name)
	}
	return names
}

func (p *Provider) cluster(name string) *engaged {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clusters[name]
}
