package classes

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

	revision string // changes with the object and its spec
	token    *secretKey
	ca       *secretKey
	// cert and key are what the hub shows the store; both nil or neither.
	cert, key *secretKey
}

// secretKey is one key of a Secret of the hub cluster.
type secretKey struct {
	namespace, name, key string
}

// fromCluster reads a ClusterDynamicConfigClass.
func fromCluster(o *v1alpha1.ClusterDynamicConfigClass) *Class {
	ref := Ref{Kind: v1alpha1.ClassKindCluster, Name: o.Name}
	c := newClass(ref, o, o.Spec.ClassCommon, o.Spec.TokenSecret, o.Spec.TLS)
	c.Policy.Namespaces = o.Spec.Namespaces
	if k := o.Spec.Kubernetes; k != nil {
		c.Documents = k.Namespace
	}
	return c
}

// fromNamespaced reads a DynamicConfigClass. Everything it refers to is in its own
// namespace.
func fromNamespaced(o *v1alpha1.DynamicConfigClass) *Class {
	ref := Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: o.Namespace, Name: o.Name}
	c := newClass(ref, o, o.Spec.ClassCommon, within(o.Namespace, o.Spec.TokenSecret), tlsWithin(o.Namespace, o.Spec.TLS))
	c.Policy.Namespace, c.Documents = o.Namespace, o.Namespace
	return c
}

// newClass is what both kinds have in common.
func newClass(
	ref Ref, o client.Object, spec v1alpha1.ClassCommon, token *v1alpha1.SecretReference, tls *v1alpha1.ClassTLS,
) *Class {
	c := &Class{
		Ref: ref, Spec: spec, revision: revisionOf(o), token: keyOf(token, v1alpha1.DefaultTokenKey),
		Policy: policy.Class{Kind: ref.Kind, Name: ref.Name, Clusters: spec.Clusters, Keys: spec.Keys},
	}
	if tls == nil {
		return c
	}
	c.ServerName = tls.ServerName
	c.ca = keyOf(tls.CASecret, v1alpha1.DefaultCAKey)
	if s := tls.ClientCertSecret; s != nil {
		c.cert = &secretKey{s.Namespace, s.Name, corev1.TLSCertKey}
		c.key = &secretKey{s.Namespace, s.Name, corev1.TLSPrivateKeyKey}
	}
	return c
}

func keyOf(s *v1alpha1.SecretReference, fallback string) *secretKey {
	if s == nil {
		return nil
	}
	return &secretKey{s.Namespace, s.Name, cmp.Or(s.Key, fallback)}
}

// within is a reference into a namespace.
func within(namespace string, s *v1alpha1.LocalSecretReference) *v1alpha1.SecretReference {
	if s == nil {
		return nil
	}
	return &v1alpha1.SecretReference{Namespace: namespace, Name: s.Name, Key: s.Key}
}

func tlsWithin(namespace string, t *v1alpha1.LocalClassTLS) *v1alpha1.ClassTLS {
	if t == nil {
		return nil
	}
	inside := &v1alpha1.ClassTLS{CASecret: within(namespace, t.CASecret), ServerName: t.ServerName}
	if s := t.ClientCertSecret; s != nil {
		inside.ClientCertSecret = &v1alpha1.CertificateReference{Namespace: namespace, Name: s.Name}
	}
	return inside
}
