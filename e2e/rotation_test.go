package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// certificates reads PEM.
func certificates(t *testing.T, text []byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cert)
	}
	return all
}

// published are the roots that the hub publishes, the one that signs first.
func published(t *testing.T) []*x509.Certificate {
	t.Helper()
	text, err := fleet.Hub.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return certificates(t, []byte(text))
}

// kept are the roots that an agent keeps.
func kept(t *testing.T, spoke *stage.Spoke) []*x509.Certificate {
	t.Helper()
	return certificates(t, identityOf(t, spoke)["ca.crt"])
}

// identityOf is what an agent keeps of its identity.
func identityOf(t *testing.T, spoke *stage.Spoke) map[string][]byte {
	t.Helper()
	secret := &corev1.Secret{}
	if err := spoke.Client.Get(t.Context(), client.ObjectKey{Namespace: stage.Namespace, Name: "dynamic-config-spoke-identity"}, secret); err != nil {
		t.Fatal(err)
	}
	return secret.Data
}

// shown is the certificate that the hub shows now.
func shown(t *testing.T) *x509.Certificate {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(t.Context(), "tcp", fleet.Hub.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

// A root is rotated while one spoke is connected and the other is away, and no process
// of the hub restarts. The one that stayed learns of the new root; the one that was away
// knows the old root alone when it comes back, and verifies the hub by it. Once the old
// root is retired, its certificates count no more, and both enrol anew by themselves.
func TestRotation_NoSpokeIsLockedOut(t *testing.T) {
	g := gomega.NewWithT(t)
	document := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rotation-docs", Name: "shop"}, Data: map[string]string{"app.json": `{"colour":"red"}`},
	}
	create(t, fleet.Hub.Cluster, namespace("rotation-docs"), document, clusterClass("rotation", "rotation-docs"))
	namespaces(t, "rotation")
	for _, spoke := range fleet.Spokes {
		create(t, spoke.Cluster, render("rotation", "rotation", "configmaps/shop/app.json"))
		holds(t, spoke, "rotation", "colour", "red")
	}
	stayed, away := fleet.Spoke("east"), fleet.Spoke("west")
	old := published(t)[0]
	away.Kill()

	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: stage.Namespace, Name: "dynamic-config-hub-ca"}}
	update(t, fleet.Hub.Cluster, ca, func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "dynamic-config.rs/rotate-requested-at", "now")
	})
	g.Eventually(func() bool { return !published(t)[0].Equal(old) }).WithTimeout(patience).Should(gomega.BeTrue(), "the old root still signs")
	root := published(t)[0]
	g.Eventually(func() error { return shown(t).CheckSignatureFrom(root) }).WithTimeout(patience).Should(gomega.Succeed())
	if !slices.ContainsFunc(published(t), old.Equal) {
		t.Error("the old root is trusted no more")
	}

	reconnect(t, stayed)
	g.Eventually(func() bool { return slices.ContainsFunc(kept(t, stayed), root.Equal) }).WithTimeout(patience).
		Should(gomega.BeTrue(), "the spoke that stayed does not know the new root")

	if slices.ContainsFunc(kept(t, away), root.Equal) {
		t.Error("the spoke that was away knows the new root already")
	}
	if err := away.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	update(t, fleet.Hub.Cluster, document, func(m *corev1.ConfigMap) { m.Data["app.json"] = `{"colour":"blue"}` })
	for _, spoke := range fleet.Spokes {
		holds(t, spoke, "rotation", "colour", "blue")
	}
	g.Eventually(func() bool { return slices.ContainsFunc(kept(t, away), root.Equal) }).WithTimeout(patience).
		Should(gomega.BeTrue(), "the spoke that was away does not learn of the new root")

	for _, spoke := range fleet.Spokes {
		if err := spoke.UpdateCA(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	update(t, fleet.Hub.Cluster, ca, func(s *corev1.Secret) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, "dynamic-config.rs/retire-requested-at", "now")
	})
	g.Eventually(func() int { return len(published(t)) }).WithTimeout(patience).Should(gomega.Equal(1), "the old root is still trusted")
	update(t, fleet.Hub.Cluster, document, func(m *corev1.ConfigMap) { m.Data["app.json"] = `{"colour":"green"}` })
	for _, spoke := range fleet.Spokes { // the sessions of the old root's certificates end by themselves
		g.Eventually(func() error { return certificates(t, identityOf(t, spoke)["tls.crt"])[0].CheckSignatureFrom(root) }).
			WithTimeout(patience).Should(gomega.Succeed(), "%s: the certificate is the old root's", spoke.Name)
		holds(t, spoke, "rotation", "colour", "green")
	}
}

// reconnect ends a spoke's session and waits for the next one, as there is one every
// half hour.
func reconnect(t *testing.T, spoke *stage.Spoke) {
	t.Helper()
	cluster := &v1alpha1.SpokeCluster{ObjectMeta: metav1.ObjectMeta{Name: spoke.Name}}
	connected := func() bool { _, is := epoch(t, spoke.Name); return is }
	update(t, fleet.Hub.Cluster, cluster, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = true })
	gomega.NewWithT(t).Eventually(connected).WithTimeout(patience).Should(gomega.BeFalse())
	update(t, fleet.Hub.Cluster, cluster, func(c *v1alpha1.SpokeCluster) { c.Spec.Suspend = false })
	gomega.NewWithT(t).Eventually(connected).WithTimeout(patience).Should(gomega.BeTrue())
}
