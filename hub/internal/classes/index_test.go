package classes_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long a loaded machine may take.
const patience = 60 * time.Second

// listing counts the objects that lists answer.
type listing struct {
	client.Reader
	objects int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, list, opts...)
	l.objects += apimeta.LenList(list)
	return err
}

// indexed is a cache of the hub's cluster that finds classes by their Secrets.
func indexed(t *testing.T) cache.Cache {
	t.Helper()
	c, err := cache.New(hub.Config, cache.Options{Scheme: testenv.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := classes.IndexSecrets(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestResolver_UsingSecret_ReadsOnlyTheClassesThatNameIt(t *testing.T) {
	r := newRig(t)
	r.certified()
	r.create(&v1alpha1.ClusterDynamicConfigClass{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: v1alpha1.ClusterDynamicConfigClassSpec{
			ClassCommon: common, TokenSecret: &v1alpha1.SecretReference{Namespace: r.namespace, Name: "token"},
			TLS: &v1alpha1.ClassTLS{
				CASecret:         &v1alpha1.SecretReference{Namespace: "infra-" + r.namespace, Name: "ca"},
				ClientCertSecret: &v1alpha1.CertificateReference{Namespace: "infra-" + r.namespace, Name: "client"},
			},
		},
	})
	own, cluster := "DynamicConfigClass/"+r.namespace+"/consul", "ClusterDynamicConfigClass/"+r.namespace
	read := &listing{Reader: indexed(t)}
	resolver := &classes.Resolver{Objects: read}
	for name, tc := range map[string]struct {
		namespace, name string
		want            []string
	}{
		"the credential of two":                   {r.namespace, "token", []string{cluster, own}},
		"a CA":                                    {r.namespace, "ca", []string{own}},
		"a client certificate":                    {r.namespace, "client", []string{own}},
		"a cluster class's CA":                    {"infra-" + r.namespace, "ca", []string{cluster}},
		"a cluster class's client certificate":    {"infra-" + r.namespace, "client", []string{cluster}},
		"a Secret that no class names":            {r.namespace, "other", nil},
		"one of such a name in another namespace": {"other-" + r.namespace, "token", nil},
	} {
		t.Run(name, func(t *testing.T) {
			gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
				before := read.objects
				all, err := resolver.UsingSecret(t.Context(), tc.namespace, tc.name)
				g.Expect(err).NotTo(gomega.HaveOccurred())
				var got []string
				for _, c := range all {
					got = append(got, c.Ref.String())
				}
				g.Expect(got).To(gomega.ConsistOf(tc.want))
				g.Expect(read.objects-before).To(gomega.Equal(len(tc.want)), "classes that were read")
			}).WithTimeout(patience).Should(gomega.Succeed())
		})
	}
}
