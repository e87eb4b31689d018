package testenv

import (
	"context"
	"fmt"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenSeconds is how long a ServiceAccount's token lives: longer than a test.
const tokenSeconds = 6 * 60 * 60

// ServiceAccountConfig returns a configuration that holds a token of an existing
// ServiceAccount and nothing else: what the API server then allows is what RBAC
// gives that account. Its rate is not limited.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request a token of %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = request.Status.Token
	return config, nil
}

// ServiceAccountKubeconfig writes what ServiceAccountConfig returns to a file in
// the cluster's folder and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	config, err := c.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.Dir, namespace+"."+name+".kubeconfig")
	return file, WriteKubeconfig(config, file)
}

// NewClient returns a client without a cache that acts with config.
func NewClient(config *rest.Config) (client.Client, error) {
	return client.New(config, client.Options{Scheme: Scheme()})
}

// WriteKubeconfig writes a file that kubectl and clientcmd read, with the
// address and the credentials of config.
func WriteKubeconfig(config *rest.Config, file string) error {
	const name = "testenv"
	text := clientcmdapi.NewConfig()
	text.Clusters[name] = &clientcmdapi.Cluster{
		Server: config.Host, CertificateAuthorityData: config.CAData,
	}
	text.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:                 config.BearerToken,
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	}
	text.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	text.CurrentContext = name
	if err := clientcmd.WriteToFile(*text, file); err != nil {
		return fmt.Errorf("write a kubeconfig: %w", err)
	}
	return nil
}
