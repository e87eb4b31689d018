package identity

import (
	"crypto/x509"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// DefaultTrustDomain is the trust domain of a hub that states none.
const DefaultTrustDomain = "dynamic-config.internal"

// spokePath is the path prefix of a cluster's URI.
const spokePath = "/spoke/"

// ValidateCluster refuses a name that cannot be a cluster's: it must be a DNS-1123
// label, so that the name is one path segment of the URI and nothing else.
func ValidateCluster(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return &Error{Reason: ReasonNameInvalid, Message: "the cluster's name is not a DNS label of at most 63 characters"}
	}
	return nil
}

// SpokeURI is the identity of a cluster: spiffe://<trust domain>/spoke/<cluster>.
func SpokeURI(trustDomain, cluster string) *url.URL {
	return &url.URL{Scheme: "spiffe", Host: trustDomain, Path: spokePath + cluster}
}

// ClusterOf returns the cluster that a verified certificate belongs to. It refuses
// a certificate with no, another or more than one URI, and one that also carries
// names of another kind. It does not verify the certificate's chain.
func ClusterOf(cert *x509.Certificate, trustDomain string) (string, error) {
	if len(cert.URIs) != 1 || len(cert.DNSNames)+len(cert.EmailAddresses)+len(cert.IPAddresses) > 0 {
		return "", &Error{Reason: ReasonCertificateInvalid, Message: "the certificate must carry exactly one URI and no other name"}
	}
	uri := cert.URIs[0]
	cluster, ok := strings.CutPrefix(uri.Path, spokePath)
	if !ok || uri.Scheme != "spiffe" || uri.Host != trustDomain {
		return "", &Error{Reason: ReasonCertificateInvalid, Message: "the certificate is no cluster's of this trust domain"}
	}
	if err := ValidateCluster(cluster); err != nil {
		return "", &Error{Reason: ReasonCertificateInvalid, Message: "the certificate names no valid cluster"}
	}
	if uri.String() != SpokeURI(trustDomain, cluster).String() {
		return "", &Error{Reason: ReasonCertificateInvalid, Message: "the certificate's URI has more than a cluster's name"}
	}
	return cluster, nil
}
