package hubtest

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/timestamppb"

	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

func (h *Hub) makeCA(tb testing.TB) {
	tb.Helper()
	var err error
	if h.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub CA of a test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ownLifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &h.caKey.PublicKey, h.caKey)
	if err != nil {
		tb.Fatal(err)
	}
	if h.ca, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	h.CAFile = filepath.Join(tb.TempDir(), "ca.crt")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(h.CAFile, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// sign signs a certificate for a key.
func (h *Hub) sign(template *x509.Certificate, key any, lifetime time.Duration) ([]byte, error) {
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Second)
	template.NotAfter = time.Now().Add(lifetime)
	return x509.CreateCertificate(rand.Reader, template, h.ca, key, h.caKey)
}

// Enroll signs for a ServiceAccount's token that is bound to the key, if the cluster's
// keys are known or a join token comes with them.
func (h *Hub) Enroll(_ context.Context, request *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.enrolled = append(h.enrolled, request)
	csr, err := x509.ParseCertificateRequest(request.GetCsrDer())
	if err != nil || csr.CheckSignature() != nil {
		return nil, Denied(codes.InvalidArgument, "RequestInvalid")
	}
	if err := h.judge(request, csr.PublicKey); err != nil {
		return nil, err
	}
	renewAfter := cmp.Or(h.settings.RenewAfter, 30*time.Minute)
	der, err := h.sign(&x509.Certificate{
		URIs:        []*url.URL{identity.SpokeURI(identity.DefaultTrustDomain, request.GetCluster())},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, csr.PublicKey, cmp.Or(h.settings.Lifetime, time.Hour))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &fleetv1.EnrollResponse{
		ChainDer: [][]byte{der}, TrustBundleDer: [][]byte{h.ca.Raw},
		ServerTime: timestamppb.New(now), RenewAfter: timestamppb.New(now.Add(renewAfter)),
	}, nil
}

// judge refuses evidence. It reads what a token is for, and does not verify it.
func (h *Hub) judge(request *fleetv1.EnrollRequest, key crypto.PublicKey) error {
	token, join := request.GetServiceAccountToken(), request.GetJoinToken()
	known := h.joined || !h.settings.UnknownKeys
	if join != nil {
		token, known = join.GetServiceAccountToken(), join.GetToken() == Token && len(join.GetKeys().GetJwks()) > 0 && !h.joined
	}
	want, err := identity.TokenAudience(identity.DefaultTrustDomain, request.GetCluster(), key)
	if err != nil {
		return err
	}
	if !known || !slices.Equal(audienceOf(token), []string{want}) {
		return Denied(codes.PermissionDenied, identity.ReasonEvidenceInvalid)
	}
	if join != nil {
		h.joined = true
		if h.settings.LoseJoin {
			return Denied(codes.Unavailable, "")
		}
	}
	return nil
}

// Proof is a token for an audience that this hub accepts, and no other would.
func Proof(audience string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":["`+audience+`"]}`)) + ".c2ln"
}

// audienceOf is what a token says it is for.
func audienceOf(token string) []string {
	var claims struct {
		Audience []string `json:"aud"`
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return nil
	}
	return claims.Audience
}

// identify is the cluster of the connection's certificate.
func (h *Hub) identify(ctx context.Context) (string, error) {
	p, _ := peer.FromContext(ctx)
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "", Denied(codes.Unauthenticated, "CertificateMissing")
	}
	leaf := info.State.PeerCertificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(h.ca)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return "", Denied(codes.Unauthenticated, "CertificateInvalid")
	}
	return filepath.Base(leaf.URIs[0].Path), nil
}
