package mirror

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// readOnlyClient reads a mirror. Every writer answers MethodNotSupported.
type readOnlyClient struct {
	client.Reader
	scheme *runtime.Scheme
	mapper apimeta.RESTMapper
}

var _ client.Client = (*readOnlyClient)(nil)

func (c *readOnlyClient) Scheme() *runtime.Scheme        { return c.scheme }
func (c *readOnlyClient) RESTMapper() apimeta.RESTMapper { return c.mapper }

func (c *readOnlyClient) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, c.scheme)
}

func (c *readOnlyClient) IsObjectNamespaced(o runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(o, c.scheme, c.mapper)
}

func (c *readOnlyClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return unsupported("apply")
}

func (c *readOnlyClient) Create(context.Context, client.Object, ...client.CreateOption) error {
	return unsupported("create")
}

func (c *readOnlyClient) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return unsupported("delete")
}

func (c *readOnlyClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return unsupported("update")
}

func (c *readOnlyClient) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return unsupported("patch")
}

func (c *readOnlyClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return unsupported("deletecollection")
}

func (c *readOnlyClient) Status() client.SubResourceWriter            { return readOnlySubResource{} }
func (c *readOnlyClient) SubResource(string) client.SubResourceClient { return readOnlySubResource{} }

type readOnlySubResource struct{}

func (readOnlySubResource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return unsupported("get subresource")
}

func (readOnlySubResource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return unsupported("create subresource")
}

func (readOnlySubResource) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return unsupported("update subresource")
}

func (readOnlySubResource) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return unsupported("patch subresource")
}

func (readOnlySubResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return unsupported("apply subresource")
}

func unsupported(verb string) error {
	return apierrors.NewMethodNotSupported(renderResource, verb)
}
