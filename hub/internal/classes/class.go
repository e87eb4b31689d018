package classes

import (
	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
)

// Ref names a class.
type Ref struct {
	Kind v1alpha1.ClassKind
	// Namespace is empty for a ClusterDynamicConfigClass.
	Namespace, Name string
}

// RefOf is the class that a Render asks for: a namespaced one is that of the hub's
// namespace with the Render's namespace's name.
func RefOf(r *v1alpha1.DynamicConfigRender) Ref {
	ref := Ref{Kind: r.Spec.EffectiveClassKind(), Name: r.Spec.Class}
	if ref.Kind != v1alpha1.ClassKindCluster {
		ref.Namespace = r.Namespace
	}
	return ref
}

// String reads Kind/name or Kind/namespace/name.
func (r Ref) String() string {
	return v1alpha1.ClassID(r.Kind, r.Namespace, r.Name)
}

// Class is a class of either kind.
type Class struct {
	Ref Ref
	// Policy is what the class says about whom it serves.
	Policy policy.Class

	// Spec is what both kinds of class hold.
	Spec v1alpha1.ClassCommon
	// ServerName in the store's certificate; empty for the endpoint's.
	ServerName string
	// Documents is the namespace that source kubernetes reads in.
	Documents string

	revision  string // changes with the object and its spec
	token, ca *secretKey
}

// secretKey is one key of a Secret of the hub cluster.
type secretKey struct {
	namespace, name, key string
}

// UsesSecret says whether the class's credential or CA is in a Secret.
func (c *Class) UsesSecret(namespace, name string) bool {
	for _, s := range []*secretKey{c.token, c.ca} {
		if s != nil && s.namespace == namespace && s.name == name {
			return true
		}
	}
	return false
}

// fromCluster reads a ClusterDynamicConfigClass.
func fromCluster(o *v1alpha1.ClusterDynamicConfigClass) *Class {
	c := fromCommon(Ref{Kind: v1alpha1.ClassKindCluster, Name: o.Name}, o.Spec.ClassCommon)
	c.revision = revisionOf(o)
	c.Policy.Namespaces = o.Spec.Namespaces
	if s := o.Spec.TokenSecret; s != nil {
		c.token = &secretKey{s.Namespace, s.Name, orDefault(s.Key, v1alpha1.DefaultTokenKey)}
	}
	if t := o.Spec.TLS; t != nil {
		c.ServerName = t.ServerName
		if s := t.CASecret; s != nil {
			c.ca = &secretKey{s.Namespace, s.Name, orDefault(s.Key, v1alpha1.DefaultCAKey)}
		}
	}
	if k := o.Spec.Kubernetes; k != nil {
		c.Documents = k.Namespace
	}
	return c
}

// fromNamespaced reads a DynamicConfigClass. Everything it refers to is in its own
// namespace.
func fromNamespaced(o *v1alpha1.DynamicConfigClass) *Class {
	c := fromCommon(Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: o.Namespace, Name: o.Name}, o.Spec.ClassCommon)
	c.revision = revisionOf(o)
	c.Policy.Namespace = o.Namespace
	c.Documents = o.Namespace
	if s := o.Spec.TokenSecret; s != nil {
		c.token = &secretKey{o.Namespace, s.Name, orDefault(s.Key, v1alpha1.DefaultTokenKey)}
	}
	if t := o.Spec.TLS; t != nil {
		c.ServerName = t.ServerName
		if s := t.CASecret; s != nil {
			c.ca = &secretKey{o.Namespace, s.Name, orDefault(s.Key, v1alpha1.DefaultCAKey)}
		}
	}
	return c
}

func fromCommon(ref Ref, spec v1alpha1.ClassCommon) *Class {
	return &Class{
		Ref: ref, Spec: spec,
		Policy: policy.Class{Kind: ref.Kind, Name: ref.Name, Clusters: spec.Clusters, Keys: spec.Keys},
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
