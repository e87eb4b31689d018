package authority_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/internal/testenv"
)

var hub *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { hub = c }, testenv.WithoutControllers)
}

// namespace makes a namespace for one test.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hub-"}}
	if err := hub.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// config is that of a hub in a namespace.
func config(ns string) authority.Config {
	return authority.Config{Client: hub.Client, Namespace: ns, TrustDomain: domain, Grace: time.Hour, Now: time.Now}
}

func get[T client.Object](t *testing.T, ns, name string, o T) T {
	t.Helper()
	if err := hub.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestLoad_MakesOnceAndReadsAfter(t *testing.T) {
	g, ns := gomega.NewWithT(t), namespace(t)
	first, err := authority.Load(t.Context(), config(ns))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(first.ContentKey).To(gomega.HaveLen(32))
	published := get(t, ns, authority.CAConfigMap, &corev1.ConfigMap{})
	g.Expect(published.Data["ca.crt"]).To(gomega.HavePrefix("-----BEGIN CERTIFICATE-----"))
	for _, text := range published.Data {
		g.Expect(text).NotTo(gomega.ContainSubstring("PRIVATE"))
	}
	secret := get(t, ns, authority.CASecret, &corev1.Secret{})

	second, err := authority.Load(t.Context(), config(ns))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(second.Authority.BundleDER()).To(gomega.Equal(first.Authority.BundleDER()))
	g.Expect(second.ContentKey).To(gomega.Equal(first.ContentKey))
	g.Expect(get(t, ns, authority.CAConfigMap, &corev1.ConfigMap{}).ResourceVersion).To(gomega.Equal(published.ResourceVersion))
	g.Expect(get(t, ns, authority.CASecret, &corev1.Secret{}).ResourceVersion).To(gomega.Equal(secret.ResourceVersion))
}

func TestLoad_ReplicasThatStartTogetherShareOneRoot(t *testing.T) {
	ns := namespace(t)
	const replicas = 6
	all, errs := make([]*authority.Secrets, replicas), make([]error, replicas)
	var group sync.WaitGroup
	for i := range replicas {
		group.Go(func() { all[i], errs[i] = authority.Load(t.Context(), config(ns)) })
	}
	group.Wait()
	for i := range replicas {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if !slices.EqualFunc(all[i].Authority.BundleDER(), all[0].Authority.BundleDER(), bytes.Equal) || !bytes.Equal(all[i].ContentKey, all[0].ContentKey) {
			t.Fatalf("replica %d has secrets of its own", i)
		}
	}
}

func TestLoad_PublishesEveryTrustedRoot(t *testing.T) {
	g, ns := gomega.NewWithT(t), namespace(t)
	cert, key := newRoot(t)
	coming, _ := newRoot(t)
	for name, bundle := range map[string][]byte{"a Secret without a bundle": nil, "a bundle with a coming root": coming} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: authority.CASecret}}
		_ = hub.Client.Delete(t.Context(), secret)
		secret = &corev1.Secret{
			ObjectMeta: secret.ObjectMeta, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": bundle},
		}
		secret.ResourceVersion, secret.UID = "", ""
		g.Expect(hub.Client.Create(t.Context(), secret)).To(gomega.Succeed(), name)
		_, err := authority.Load(t.Context(), config(ns))
		g.Expect(err).NotTo(gomega.HaveOccurred(), name)
		published := get(t, ns, authority.CAConfigMap, &corev1.ConfigMap{}).Data["ca.crt"]
		g.Expect(published).To(gomega.Equal(string(slices.Concat(cert, bundle))), name)
	}
}

func TestLoad_RefusesWhatItCannotUse(t *testing.T) {
	cert, key := newRoot(t)
	_, other := newRoot(t)
	for name, tc := range map[string]struct {
		secret string
		kind   corev1.SecretType
		data   map[string][]byte
		says   string
	}{
		"a root whose key is another's": {
			authority.CASecret, corev1.SecretTypeTLS,
			map[string][]byte{"tls.crt": cert, "tls.key": other},
			"do not fit together",
		},
		"a content key that is too short": {
			authority.ContentKeySecret, corev1.SecretTypeOpaque,
			map[string][]byte{"key": key[:16]},
			"key has 16 bytes, needs 32",
		},
		"a content key Secret that is empty": {authority.ContentKeySecret, corev1.SecretTypeOpaque, nil, "key has 0 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespace(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: tc.secret}, Type: tc.kind, Data: tc.data}
			if err := hub.Client.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			_, err := authority.Load(t.Context(), config(ns))
			if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), ns+"/"+tc.secret) {
				t.Errorf("error %v, want %q with the Secret's name", err, tc.says)
			}
			if err != nil && (strings.Contains(err.Error(), "PRIVATE") || strings.Contains(err.Error(), string(key[:16]))) {
				t.Errorf("the error holds a key: %v", err)
			}
		})
	}
}

// A level that shows bodies must not show keys.
func TestLoad_LogsNoKey(t *testing.T) {
	ns, log := namespace(t), &strings.Builder{}
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { log.WriteString(line) }, funcr.Options{Verbosity: 99}))
	for range 2 { // what is made, and what is read
		if _, err := authority.Load(ctx, config(ns)); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(log.String(), "tls.key") {
		t.Error("the log holds the root's Secret")
	}
}

func TestLoad_ANamespaceThatIsMissing(t *testing.T) {
	if _, err := authority.Load(t.Context(), config("nowhere")); err == nil {
		t.Error("loaded from a namespace that does not exist")
	}
}
