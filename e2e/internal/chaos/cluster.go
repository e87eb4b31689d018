package chaos

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// contention is how often an object is changed again while the fleet writes it too.
var contention = wait.Backoff{Steps: 10, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 1}

// update changes an object, again when somebody else did meanwhile. One that is gone is
// no error.
func update(ctx context.Context, c client.Client, object client.Object, change func()) error {
	return client.IgnoreNotFound(retry.RetryOnConflict(contention, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return c.Update(ctx, object, client.FieldOwner("chaos"))
	}))
}

// target is the object that a Render writes.
func target(i id, t v1alpha1.RenderTarget) client.Object {
	var o client.Object
	if t.ConfigMap != "" {
		o = &corev1.ConfigMap{}
		o.SetName(t.ConfigMap)
	} else {
		o = &corev1.Secret{}
		o.SetName(t.Secret)
	}
	o.SetNamespace(i.namespace)
	return o
}

// spoil edits the target of some Render by hand.
func (r *run) spoil(ctx context.Context) error {
	i, ok := r.someRender()
	if !ok {
		return nil
	}
	r.Log("spoil the target of %s", i)
	r.world.spoiled[i] = true
	o := target(i, r.world.wanted[i].Target)
	return update(ctx, r.Stage.Spoke(i.spoke).Client, o, func() {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			for key := range o.Data {
				o.Data[key] = "spoiled"
			}
		case *corev1.Secret:
			for key := range o.Data {
				o.Data[key] = []byte("spoiled")
			}
		}
	})
}

// removeTarget deletes the target of some Render by hand.
func (r *run) removeTarget(ctx context.Context) error {
	i, ok := r.someRender()
	if !ok {
		return nil
	}
	r.Log("remove the target of %s", i)
	o := target(i, r.world.wanted[i].Target)
	return client.IgnoreNotFound(r.Stage.Spoke(i.spoke).Client.Delete(ctx, o))
}
