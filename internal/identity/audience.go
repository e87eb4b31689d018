package identity

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
)

// TokenAudience is the one audience of the ServiceAccount token that proves a cluster
// when its agent enrols with a key:
// dynamic-config:<trust domain>:<cluster>:<unpadded base64url of the SHA-256 of the
// key's SubjectPublicKeyInfo>. So a token that is stolen on its way serves no other
// hub, no other cluster and no other key, and no API server. It fails for a kind of
// key that has no SubjectPublicKeyInfo.
func TokenAudience(trustDomain, cluster string, key crypto.PublicKey) (string, error) {
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	sum := sha256.Sum256(spki)
	return "dynamic-config:" + trustDomain + ":" + cluster + ":" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
