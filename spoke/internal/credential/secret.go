package credential

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/spoke/internal/redact"
)

// SecretName is the name of the Secret in the agent's namespace.
const SecretName = "dynamic-config-spoke-identity"

// The keys of the Secret.
const (
	keyField    = corev1.TLSPrivateKeyKey
	chainField  = corev1.TLSCertKey
	bundleField = "ca.crt"
)

// ErrMalformed says that the Secret holds no usable credential.
var ErrMalformed = errors.New("malformed credential")

// Secret keeps a credential in a Secret.
type Secret struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace of the agent.
	Namespace string
}

// Load returns the credential; nil when there is none, ErrMalformed when what is
// there cannot be used.
func (s *Secret) Load(ctx context.Context) (*Credential, error) {
	secret := &corev1.Secret{}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: SecretName}, secret)
	if apierrors.IsNotFound(err) || (err == nil && len(secret.Data[keyField]) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", SecretName, redact.ServerText(err))
	}
	credential, err := decode(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w: %w", SecretName, ErrMalformed, err)
	}
	return credential, nil
}

// Save writes the credential.
func (s *Secret) Save(ctx context.Context, c *Credential) error {
	data, err := encode(c)
	if err != nil {
		return fmt.Errorf("encode the credential: %w", err)
	}
	secret := corev1ac.Secret(SecretName, s.Namespace).WithData(data)
	// The agent is the only one who has a word about its own identity.
	if err := s.Client.Apply(ctx, secret, client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("write secret %s: %w", SecretName, redact.ServerText(err))
	}
	return nil
}

// encode turns a credential into PEM.
func encode(c *Credential) (map[string][]byte, error) {
	key, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyField:    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		chainField:  encodeCertificates(c.chain),
		bundleField: encodeCertificates(c.TrustBundle),
	}, nil
}

// decode turns PEM into a credential.
func decode(data map[string][]byte) (*Credential, error) {
	block, _ := pem.Decode(data[keyField])
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM", keyField)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s does not parse", keyField) // the cause may quote the key
	}
	return New(key, decodeCertificates(data[chainField]), decodeCertificates(data[bundleField]))
}

// encodeCertificates turns certificates into PEM.
func encodeCertificates(all []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, certificate := range all {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	}
	return out.Bytes()
}

// decodeCertificates returns the certificates in PEM text, in DER.
func decodeCertificates(text []byte) [][]byte {
	var all [][]byte
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
}

// ParsePEM reads certificates in PEM; it fails when there is none.
func ParsePEM(text []byte) ([]*x509.Certificate, error) {
	all, err := parseAll(decodeCertificates(text))
	if err == nil && len(all) == 0 {
		err = errors.New("no certificate in PEM")
	}
	return all, err
}
