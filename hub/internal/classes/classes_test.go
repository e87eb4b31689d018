package classes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
	"dynamic-config.rs/fleet/internal/testenv"
)

var hub *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { hub = c }, testenv.WithoutControllers)
}

// counting counts live reads.
type counting struct {
	client.Reader
	reads int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	c.reads++
	return c.Reader.Get(ctx, key, o, opts...)
}

// rig is a resolver in a namespace of its own.
type rig struct {
	t         *testing.T
	namespace string
	live      *counting
	resolver  *classes.Resolver
	opened    []classes.Credential
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	r := &rig{t: t, live: &counting{Reader: hub.Client}}
	r.create(ns)
	r.namespace = ns.Name
	r.resolver = &classes.Resolver{
		Objects: hub.Client, Secrets: classes.NewSecrets(hub.Client, r.live),
		Open: func(_ *classes.Class, cred classes.Credential) (store.Reader, error) {
			r.opened = append(r.opened, cred)
			return memory.New(), nil
		},
	}
	return r
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	if err := hub.Client.Create(r.t.Context(), o); err != nil {
		r.t.Fatal(err)
	}
	if o.GetNamespace() == "" { // not in the test's namespace: another run would find it
		r.t.Cleanup(func() { _ = hub.Client.Delete(context.WithoutCancel(r.t.Context()), o) })
	}
}

func (r *rig) update(o client.Object) {
	r.t.Helper()
	if err := hub.Client.Update(r.t.Context(), o); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) secret(name string, data map[string]string) *corev1.Secret {
	r.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, StringData: data}
	r.create(s)
	return s
}

// class makes a DynamicConfigClass that reads its token and CA from Secrets.
func (r *rig) class() *v1alpha1.DynamicConfigClass {
	r.t.Helper()
	c := &v1alpha1.DynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "consul"},
		Spec: v1alpha1.DynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "https://consul.example:8501"},
			TokenSecret: &v1alpha1.LocalSecretReference{Name: "token"},
			TLS:         &v1alpha1.LocalClassTLS{CASecret: &v1alpha1.LocalSecretReference{Name: "ca"}, ServerName: "consul.example"},
		},
	}
	r.create(c)
	return c
}

func (r *rig) find() *classes.Class {
	r.t.Helper()
	c, err := r.resolver.Find(r.t.Context(), classes.Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: r.namespace, Name: "consul"})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) source() feed.Source {
	r.t.Helper()
	s, err := r.resolver.Source(r.t.Context(), r.find())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func TestRefOf(t *testing.T) {
	for name, tc := range map[string]struct {
		kind v1alpha1.ClassKind
		want string
	}{
		"a Render that states no kind names its namespace's": {"", "DynamicConfigClass/shop/c"},
		"a namespaced class is its namespace's":              {v1alpha1.ClassKindNamespaced, "DynamicConfigClass/shop/c"},
		"a cluster class has no namespace":                   {v1alpha1.ClassKindCluster, "ClusterDynamicConfigClass/c"},
		"a kind of the future is not taken for a known one":  {"unknown", "unknown/shop/c"},
	} {
		t.Run(name, func(t *testing.T) {
			render := &v1alpha1.DynamicConfigRender{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "r"}}
			render.Spec.Class, render.Spec.ClassKind = "c", tc.kind
			if got := classes.RefOf(render).String(); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestResolver_Find_BothKinds(t *testing.T) {
	r := newRig(t)
	r.certified()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	cluster := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceKubernetes, Clusters: selector, Keys: []string{"secrets/**"}},
			Namespaces:  []string{"shop"}, Kubernetes: &v1alpha1.KubernetesOptions{Namespace: "docs"},
			TLS: &v1alpha1.ClassTLS{
				CASecret:         &v1alpha1.SecretReference{Namespace: "infra", Name: "ca"},
				ClientCertSecret: &v1alpha1.CertificateReference{Namespace: "certs", Name: "client"},
			},
		},
	}
	r.create(cluster)
	for name, tc := range map[string]struct {
		ref       classes.Ref
		policy    policy.Class
		documents string
	}{
		"a namespaced class serves its namespace, with Secrets from it": {
			classes.Ref{Kind: v1alpha1.ClassKindNamespaced, Namespace: r.namespace, Name: "consul"},
			policy.Class{Kind: v1alpha1.ClassKindNamespaced, Name: "consul", Namespace: r.namespace},
			r.namespace,
		},
		"a cluster class serves what it lists, with Secrets from where it says": {
			classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: r.namespace},
			policy.Class{Kind: v1alpha1.ClassKindCluster, Name: r.namespace, Namespaces: []string{"shop"}, Clusters: selector, Keys: []string{"secrets/**"}},
			"docs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := r.resolver.Find(t.Context(), tc.ref)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.policy, c.Policy); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if c.Documents != tc.documents || c.Ref != tc.ref {
				t.Errorf("documents in %q, ref %v", c.Documents, c.Ref)
			}
		})
	}
	all, err := r.resolver.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, c := range all {
		found[c.Ref.String()] = true
	}
	if !found["ClusterDynamicConfigClass/"+r.namespace] || !found["DynamicConfigClass/"+r.namespace+"/consul"] {
		t.Errorf("all are %v", found)
	}
}

func TestResolver_Find_WhatIsNotThere(t *testing.T) {
	r := newRig(t)
	for _, ref := range []classes.Ref{
		{Kind: v1alpha1.ClassKindNamespaced, Namespace: r.namespace, Name: "none"},
		{Kind: v1alpha1.ClassKindCluster, Name: "none"},
		{Kind: "unknown", Namespace: r.namespace, Name: "none"},
	} {
		if _, err := r.resolver.Find(t.Context(), ref); !errors.Is(err, classes.ErrNotFound) || !strings.Contains(err.Error(), ref.String()) {
			t.Errorf("%s: error %v", ref, err)
		}
	}
}

func TestResolver_Source_Limits(t *testing.T) {
	r := newRig(t)
	c := &v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec:       v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceConsul, Endpoint: "http://consul.example:8500"}},
	}
	r.create(c)
	ref := classes.Ref{Kind: v1alpha1.ClassKindCluster, Name: r.namespace}
	for name, tc := range map[string]struct {
		limits *v1alpha1.ClassLimits
		want   feed.Limits
	}{
		"a class that states none has the defaults": {nil, feed.Limits{RequestsPerSecond: 20, Burst: 40, Concurrency: 8}},
		"each is the class's own where stated": {
			&v1alpha1.ClassLimits{RequestsPerSecond: ptr.To[int32](1), MinIntervalSeconds: ptr.To[int32](60)},
			feed.Limits{RequestsPerSecond: 1, Burst: 40, Concurrency: 8, MinInterval: time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.Spec.Limits = tc.limits
			r.update(c)
			class, err := r.resolver.Find(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			source, err := r.resolver.Source(t.Context(), class)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, source.Limits, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if source.ID != ref.String() {
				t.Errorf("ID %s", source.ID)
			}
		})
	}
	if r.live.reads > 0 {
		t.Error("a class without Secrets read one")
	}
}
