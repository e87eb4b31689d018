package e2e_test

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// identitySecret is where an agent keeps its key and certificate.
const identitySecret = "dynamic-config-spoke-identity"

// East was enrolled by its keys, west by a join token: from then on they are alike.
func TestEnrolment_ByKeysAndByJoinToken(t *testing.T) {
	g := gomega.NewWithT(t)
	for name, joined := range map[string]bool{"east": false, "west": true} {
		c := &v1alpha1.SpokeCluster{}
		g.Eventually(func() bool {
			g.Expect(fleet.Hub.Client.Get(t.Context(), client.ObjectKey{Name: name}, c)).To(gomega.Succeed())
			return apimeta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionKeysPinned)
		}).WithTimeout(patience).Should(gomega.BeTrue(), "%s: %v", name, c.Status.Conditions)
		g.Expect(c.Status.RedeemedJoinToken != "").To(gomega.Equal(joined), name)
		g.Expect(c.Status.Keys != nil).To(gomega.Equal(joined), name)
	}
}

// certificate is the one that an agent keeps; nil where there is none.
func certificate(t *testing.T, spoke *stage.Spoke) *x509.Certificate {
	t.Helper()
	secret := &corev1.Secret{}
	err := spoke.Client.Get(t.Context(), client.ObjectKey{Namespace: stage.Namespace, Name: identitySecret}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// An agent whose certificate ended while it was away enrols again by itself, without
// the join token that it used once. One whose certificate ends while it is connected
// is renewed before.
func TestEnrolment_AnExpiredCertificateLocksNobodyOut(t *testing.T) {
	g, west := gomega.NewWithT(t), fleet.Spoke("west")
	g.SetDefaultEventuallyTimeout(patience)
	fleet.Hub.Kill()
	if err := fleet.Hub.Start(t.Context(), "--certificate-lifetime=4s"); err != nil {
		t.Fatal(err)
	}
	// A lost identity is made anew in the same way.
	west.Kill()
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = stage.Namespace, identitySecret
	g.Expect(west.Client.Delete(t.Context(), secret)).To(gomega.Succeed())
	g.Expect(west.Start(t.Context())).To(gomega.Succeed())
	first := certificate(t, west)
	g.Eventually(func() bool { return certificate(t, west).NotAfter.After(first.NotAfter) }).Should(gomega.BeTrue(), "it is not renewed")

	west.Kill()
	last := certificate(t, west)
	before := epochs(t)
	g.Eventually(func() bool { return time.Now().After(last.NotAfter) }).Should(gomega.BeTrue())
	fleet.Hub.Kill()
	if err := fleet.Hub.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.Expect(west.Start(t.Context())).To(gomega.Succeed())
	reconnected(t, before)
	g.Expect(certificate(t, west).NotAfter).To(gomega.BeTemporally(">", last.NotAfter.Add(time.Hour)))
}
