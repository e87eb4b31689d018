package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// Class is a class of either kind.
type Class struct {
	client.Object
	// Kind is which of the two.
	Kind v1alpha1.ClassKind
	// Common is what both kinds hold, and Status what the hub saw.
	Common *v1alpha1.ClassCommon
	Status *v1alpha1.ClassStatus
}

// ID names the class in one line.
func (c *Class) ID() string { return v1alpha1.ClassID(c.Kind, c.GetNamespace(), c.GetName()) }

// ClassOf returns an object as a class; nil when it is none.
func ClassOf(object client.Object) *Class {
	switch o := object.(type) {
	case *v1alpha1.DynamicConfigClass:
		return &Class{o, v1alpha1.ClassKindNamespaced, &o.Spec.ClassCommon, &o.Status}
	case *v1alpha1.ClusterDynamicConfigClass:
		return &Class{o, v1alpha1.ClassKindCluster, &o.Spec.ClassCommon, &o.Status}
	}
	return nil
}

// Render reads a Render.
func (c *Conn) Render(ctx context.Context, namespace, name string) (*v1alpha1.DynamicConfigRender, error) {
	render := &v1alpha1.DynamicConfigRender{}
	return render, c.read(ctx, namespace, name, render)
}

// SpokeCluster reads a SpokeCluster.
func (c *Conn) SpokeCluster(ctx context.Context, name string) (*v1alpha1.SpokeCluster, error) {
	cluster := &v1alpha1.SpokeCluster{}
	return cluster, c.read(ctx, "", name, cluster)
}

// Class reads a class.
func (c *Conn) Class(ctx context.Context, kind v1alpha1.ClassKind, namespace, name string) (*Class, error) {
	if kind == v1alpha1.ClassKindCluster {
		class := &v1alpha1.ClusterDynamicConfigClass{}
		return ClassOf(class), c.read(ctx, "", name, class)
	}
	class := &v1alpha1.DynamicConfigClass{}
	return ClassOf(class), c.read(ctx, namespace, name, class)
}

// AnyClass reads the class of a name: the one of the namespace, else the cluster's.
func (c *Conn) AnyClass(ctx context.Context, namespace, name string) (*Class, error) {
	class, err := c.Class(ctx, v1alpha1.ClassKindNamespaced, namespace, name)
	if apierrors.IsNotFound(err) {
		return c.Class(ctx, v1alpha1.ClassKindCluster, "", name)
	}
	return class, err
}

// Objects lists every object of some kinds. An empty namespace means all.
func (c *Conn) Objects(ctx context.Context, list client.ObjectList, options ...client.ListOption) ([]client.Object, error) {
	if err := c.List(ctx, list, options...); err != nil {
		return nil, c.Wrap(err)
	}
	var objects []client.Object
	err := apimeta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		objects = append(objects, object)
		return nil
	})
	return objects, err
}

// read reads one object.
func (c *Conn) read(ctx context.Context, namespace, name string, object client.Object) error {
	return c.Wrap(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// Wrap says which side an error comes from.
func (c *Conn) Wrap(err error) error {
	if err == nil {
		return nil
	}
	return &SideError{Side: c.Side, Assumed: c.Assumed, Err: err}
}

// SideError is an error of one of the two clusters.
type SideError struct {
	// Side is WorkloadSide or HubSide.
	Side string
	// Assumed is that of the connection.
	Assumed bool
	// Err is what happened.
	Err error
}

// Error is the side and the error.
func (e *SideError) Error() string { return e.Side + ": " + e.Err.Error() }

// Unwrap is the error.
func (e *SideError) Unwrap() error { return e.Err }

// Absent says whether an error means that a side does not have an object, or not even
// its kind.
func Absent(err error) bool {
	return apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err)
}
