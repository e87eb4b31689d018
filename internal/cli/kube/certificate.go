package kube

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"dynamic-config.rs/fleet/internal/identity"
)

// Names of what hub and agent keep in their namespaces. A test with a real hub and a
// real agent holds them.
const (
	// AgentIdentitySecret holds the agent's certificate, and its key.
	AgentIdentitySecret = "dynamic-config-spoke-identity"
	// HubRootsConfigMap publishes the hub's roots.
	HubRootsConfigMap = "dynamic-config-hub-ca"
	// RootsKey is the key of the roots in HubRootsConfigMap.
	RootsKey = "ca.crt"
	// HubReplicaLabel marks the Leases by which the hub's replicas say that they live.
	HubReplicaLabel = "dynamic-config.rs/hub-replica"
)

// AgentCertificate reads the certificate of the workload cluster's agent, leaf first.
// The API server sends the whole Secret; the key in it is not looked at.
func (c *Conn) AgentCertificate(ctx context.Context, namespace string) ([]*x509.Certificate, error) {
	secret := &corev1.Secret{}
	if err := c.read(ctx, namespace, AgentIdentitySecret, secret); err != nil {
		return nil, err
	}
	return ParseCertificates(secret.Data[corev1.TLSCertKey])
}

// ParseCertificates reads certificates in PEM.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("a certificate does not parse") // the cause may quote it
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return all, nil
}

// ClusterIn is the cluster that an agent's certificate names; empty when it names none.
// Whether to believe it is the hub's to judge.
func ClusterIn(certificate *x509.Certificate) string {
	if len(certificate.URIs) != 1 {
		return ""
	}
	name, err := identity.ClusterOf(certificate, certificate.URIs[0].Host)
	if err != nil {
		return ""
	}
	return name
}

// HubRoots reads the hub's roots in PEM from where the hub publishes them. They hold no
// secret.
func (c *Conn) HubRoots(ctx context.Context, namespace string) ([]byte, error) {
	roots := &corev1.ConfigMap{}
	if err := c.read(ctx, namespace, HubRootsConfigMap, roots); err != nil {
		return nil, err
	}
	return []byte(roots.Data[RootsKey]), nil
}
