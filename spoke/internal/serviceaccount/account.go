// Package serviceaccount asks the workload cluster's API server for what proves to a
// hub which cluster this is: a token of the agent's own ServiceAccount, and the keys
// that such tokens are signed with. It keeps neither.
package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/redact"
)

const (
	// tokenSeconds is the shortest life an API server grants. The token is used at once.
	tokenSeconds = 10 * 60
	// timeout bounds one question to the API server.
	timeout = 15 * time.Second
	// discoveryRole lets ServiceAccounts read the keys, and is bound to all of them
	// unless somebody took that away.
	discoveryRole = "system:service-account-issuer-discovery"
)

// Account is the agent's own ServiceAccount.
type Account struct {
	core      corev1client.CoreV1Interface
	namespace string
	name      string
}

// New returns the ServiceAccount of a namespace and name, at the API server that
// config reaches.
func New(config *rest.Config, namespace, name string) (*Account, error) {
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for tokens: %w", err)
	}
	return &Account{core: core, namespace: namespace, name: name}, nil
}

// Token returns a new token of the account for one audience, which no API server
// accepts: it proves the account to whoever the audience names.
func (a *Account) Token(ctx context.Context, audience string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: &seconds,
	}}
	answer, err := a.core.ServiceAccounts(a.namespace).CreateToken(ctx, a.name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of ServiceAccount %s/%s: %w", a.namespace, a.name, redact.ServerText(err))
	}
	return answer.Status.Token, nil
}

// Keys returns the issuer and the keys that the API server publishes.
func (a *Account) Keys(ctx context.Context) (*fleetv1.ClusterKeys, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := a.read(ctx, "/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var discovery struct {
		Issuer string `json:"issuer"`
	}
	if err := json.Unmarshal(text, &discovery); err != nil || discovery.Issuer == "" {
		return nil, errors.New("the API server's OpenID configuration names no issuer")
	}
	jwks, err := a.read(ctx, "/openid/v1/jwks")
	if err != nil {
		return nil, err
	}
	return &fleetv1.ClusterKeys{Issuer: discovery.Issuer, Jwks: jwks}, nil
}

func (a *Account) read(ctx context.Context, path string) ([]byte, error) {
	text, err := a.core.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil, fmt.Errorf("read %s: bind ClusterRole %s to the agent's ServiceAccount: %w", path, discoveryRole, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, redact.ServerText(err))
	}
	return text, nil
}
