package mirror

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// renderResource names the only resource that is mirrored.
var renderResource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "dynamicconfigrenders"}

// renderCache is one informer over a source.
type renderCache struct {
	informer toolscache.SharedIndexInformer
	scheme   *runtime.Scheme
}

var _ cache.Cache = (*renderCache)(nil)

func newRenderCache(scheme *runtime.Scheme, src *source) *renderCache {
	informer := toolscache.NewSharedIndexInformer(src, &v1alpha1.DynamicConfigRender{}, 0,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	return &renderCache{informer: informer, scheme: scheme}
}

// Get copies the mirrored Render, or answers NotFound.
func (c *renderCache) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	out, ok := obj.(*v1alpha1.DynamicConfigRender)
	if !ok {
		return c.notMirrored(obj)
	}
	item, exists, err := c.informer.GetIndexer().GetByKey(toolscache.ObjectName(key).String())
	if err != nil {
		return err
	}
	render, ok := item.(*v1alpha1.DynamicConfigRender)
	if !exists || !ok {
		return apierrors.NewNotFound(renderResource, key.String())
	}
	render.DeepCopyInto(out)
	return nil
}

// List copies the mirrored Renders, narrowed by one field, namespace and labels.
func (c *renderCache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	out, ok := list.(*v1alpha1.DynamicConfigRenderList)
	if !ok {
		return fmt.Errorf("%T is not mirrored from spokes", list)
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	items, err := c.items(&o)
	if err != nil {
		return err
	}
	out.Items = make([]v1alpha1.DynamicConfigRender, 0, len(items))
	for _, item := range items {
		if render, ok := item.(*v1alpha1.DynamicConfigRender); ok && selects(&o, render) {
			out.Items = append(out.Items, *render.DeepCopy())
		}
	}
	return nil
}

func selects(o *client.ListOptions, render *v1alpha1.DynamicConfigRender) bool {
	return (o.Namespace == "" || o.Namespace == render.Namespace) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(render.Labels)))
}

// items are those of the narrowest index.
func (c *renderCache) items(o *client.ListOptions) ([]any, error) {
	indexer := c.informer.GetIndexer()
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		reqs := o.FieldSelector.Requirements()
		if len(reqs) != 1 {
			return nil, fmt.Errorf("a mirror is listed by one field, not by %d", len(reqs))
		}
		return indexer.ByIndex(reqs[0].Field, reqs[0].Value)
	}
	if o.Namespace != "" {
		return indexer.ByIndex(toolscache.NamespaceIndex, o.Namespace)
	}
	return indexer.List(), nil
}

// GetInformer is the informer of Renders; there is none of anything else.
func (c *renderCache) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := obj.(*v1alpha1.DynamicConfigRender); !ok {
		return nil, c.notMirrored(obj)
	}
	return c.informer, nil
}

// GetInformerForKind is GetInformer by kind.
func (c *renderCache) GetInformerForKind(_ context.Context, gvk schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if gvk != v1alpha1.GroupVersion.WithKind("DynamicConfigRender") {
		return nil, &cache.ErrResourceNotCached{GVK: gvk}
	}
	return c.informer, nil
}

// RemoveInformer keeps the informer: it lives as long as the cluster.
func (c *renderCache) RemoveInformer(context.Context, client.Object) error { return nil }

// Start runs the informer until the context ends.
func (c *renderCache) Start(ctx context.Context) error {
	c.informer.RunWithContext(ctx)
	return nil
}

// WaitForCacheSync waits on the informer's own signal; the usual wait polls every
// 100 ms, which a thousand reconnecting spokes would feel.
func (c *renderCache) WaitForCacheSync(ctx context.Context) bool {
	return toolscache.WaitFor(ctx, "", c.informer.HasSyncedChecker())
}

// IndexField indexes Renders by a field.
func (c *renderCache) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	if _, ok := obj.(*v1alpha1.DynamicConfigRender); !ok {
		return c.notMirrored(obj)
	}
	return c.informer.AddIndexers(toolscache.Indexers{field: func(item any) ([]string, error) {
		object, ok := item.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", item)
		}
		return extract(object), nil
	}})
}

func (c *renderCache) notMirrored(obj runtime.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return err
	}
	return &cache.ErrResourceNotCached{GVK: gvk}
}
