package authority_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/hub/internal/authority"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
)

// clock is a time that tests set.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// ask sets an annotation of the CA Secret, as a person does.
func ask(t *testing.T, ns, annotation, value string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		secret := get(t, ns, authority.CASecret, &corev1.Secret{})
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotation, value)
		return hub.Client.Update(t.Context(), secret)
	}).WithTimeout(time.Minute).Should(gomega.Succeed())
}

// signs is the root that signs, in DER.
func signs(l *authority.Live) []byte { return l.BundleDER()[0] }

// Replicas that look at the same time rotate once, and all end with the same roots.
func TestLive_ReplicasRotateTogether(t *testing.T) {
	g, ns, now := gomega.NewWithT(t), namespace(t), &clock{now: time.Now()}
	cfg := config(ns)
	cfg.Now = now.Now
	var replicas []*authority.Live
	for range 4 {
		loaded, err := authority.Load(t.Context(), cfg)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		replicas = append(replicas, loaded.Authority)
	}
	refresh := func() {
		t.Helper()
		for range 2 { // the second time, all see what one wrote
			var group sync.WaitGroup
			for _, replica := range replicas {
				group.Go(func() {
					if err := replica.Refresh(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
		for i, replica := range replicas {
			if !slices.EqualFunc(replica.BundleDER(), replicas[0].BundleDER(), bytes.Equal) {
				t.Fatalf("replica %d trusts other roots", i)
			}
		}
		published := get(t, ns, authority.CAConfigMap, &corev1.ConfigMap{}).Data["ca.crt"]
		g.Expect(strings.Count(published, "BEGIN CERTIFICATE")).To(gomega.Equal(len(replicas[0].BundleDER())))
	}
	server := authority.NewServerCertificate(replicas[0], []string{"hub.example"})
	first := signs(replicas[0])

	ask(t, ns, authority.AnnotationRotate, "once")
	refresh()
	g.Expect(replicas[0].BundleDER()).To(gomega.HaveLen(2), "distributing")
	g.Expect(signs(replicas[0])).To(gomega.Equal(first), "distributing")

	now.advance(cfg.Grace + time.Second)
	refresh()
	g.Expect(replicas[0].BundleDER()).To(gomega.HaveLen(2), "signing")
	g.Expect(signs(replicas[0])).NotTo(gomega.Equal(first), "signing")
	shown, err := server.Get(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	root, err := x509.ParseCertificate(signs(replicas[0]))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(shown.Leaf.CheckSignatureFrom(root)).To(gomega.Succeed(), "the hub's certificate is the old root's")

	// Another replica starts now: it sees what the others see.
	late, err := authority.Load(t.Context(), cfg)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(late.Authority.BundleDER()).To(gomega.Equal(replicas[0].BundleDER()))

	ask(t, ns, authority.AnnotationRetire, "once")
	refresh()
	g.Expect(replicas[0].BundleDER()).To(gomega.HaveLen(1), "retired")

	before := get(t, ns, authority.CASecret, &corev1.Secret{}).ResourceVersion
	refresh()
	g.Expect(get(t, ns, authority.CASecret, &corev1.Secret{}).ResourceVersion).To(gomega.Equal(before), "nothing is asked and something is written")
}

// A Secret that cannot be used for a while leaves the authority as it was.
func TestLive_KeepsTheLastGoodReading(t *testing.T) {
	g, ns := gomega.NewWithT(t), namespace(t)
	loaded, err := authority.Load(t.Context(), config(ns))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	was := loaded.Authority.Current()
	secret := get(t, ns, authority.CASecret, &corev1.Secret{})
	good := secret.Data["tls.key"]
	secret.Data["tls.key"] = []byte("-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n")
	g.Expect(hub.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	err = loaded.Authority.Refresh(t.Context())
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(ns + "/" + authority.CASecret)))
	g.Expect(err.Error()).NotTo(gomega.ContainSubstring("canary"))
	g.Expect(loaded.Authority.Current()).To(gomega.BeIdenticalTo(was))

	secret.Data["tls.key"] = good
	g.Expect(hub.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	g.Expect(loaded.Authority.Refresh(t.Context())).To(gomega.Succeed())
	g.Expect(loaded.Authority.BundleDER()).To(gomega.Equal(was.BundleDER()))
}

// external writes the Secret that somebody else keeps: an authority below a root.
func external(t *testing.T, ns string, root *authority.Authority, rootPEM []byte) {
	t.Helper()
	cert, key, err := authority.IssueBelow(root, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "issued"}}
	_ = hub.Client.Delete(t.Context(), secret)
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "issued"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": rootPEM},
	}
	if err := hub.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

// An authority that somebody else keeps is followed and not written, whatever is asked;
// the root above it may sign for anybody and so counts for no spoke.
func TestLive_FollowsAnExternalAuthority(t *testing.T) {
	g, ns := gomega.NewWithT(t), namespace(t)
	rootPEM, rootKey := newRoot(t)
	root, err := authority.New(domain, rootPEM, rootKey, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	cfg := config(ns)
	cfg.External = "issued"
	_, err = authority.Load(t.Context(), cfg)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(`"issued" not found`)), "it was made where it is somebody else's")

	external(t, ns, root, rootPEM)
	secret := get(t, ns, "issued", &corev1.Secret{})
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, authority.AnnotationRotate, "now")
	g.Expect(hub.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	loaded, err := authority.Load(t.Context(), cfg)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(get(t, ns, "issued", &corev1.Secret{}).ResourceVersion).To(gomega.Equal(secret.ResourceVersion), "it was written")

	live, first := loaded.Authority, signs(loaded.Authority)
	accepts := func(signer authority.Source) bool {
		cert, err := signer.Current().SignSpoke(spoketest.Key(t).Public(), "prod", time.Now(), time.Hour)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		_, err = cert.Verify(x509.VerifyOptions{Roots: live.Roots(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	}
	g.Expect(accepts(live)).To(gomega.BeTrue(), "a spoke's certificate of the issued authority")
	g.Expect(accepts(root)).To(gomega.BeFalse(), "a certificate of the root above")

	external(t, ns, root, rootPEM) // issued anew, with another key
	g.Expect(live.Refresh(t.Context())).To(gomega.Succeed())
	g.Expect(signs(live)).NotTo(gomega.Equal(first))
	g.Expect(accepts(live)).To(gomega.BeTrue(), "a spoke's certificate of the authority that was issued anew")
	shown, err := authority.NewServerCertificate(live, []string{"hub.example"}).Get(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	above, links := x509.NewCertPool(), x509.NewCertPool()
	above.AppendCertsFromPEM(rootPEM)
	for _, der := range shown.Certificate[1:] {
		links.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	_, err = shown.Leaf.Verify(x509.VerifyOptions{Roots: above, Intermediates: links, DNSName: "hub.example"})
	g.Expect(err).NotTo(gomega.HaveOccurred(), "a spoke that knows the root above does not verify the hub")
}

func TestLive_RefusesAnExternalAuthorityWithoutRoots(t *testing.T) {
	g, ns := gomega.NewWithT(t), namespace(t)
	rootPEM, rootKey := newRoot(t)
	root, err := authority.New(domain, rootPEM, rootKey, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	external(t, ns, root, nil)
	cfg := config(ns)
	cfg.External = "issued"
	_, err = authority.Load(t.Context(), cfg)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("ca.crt is empty")))
}
