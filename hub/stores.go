package hub

import (
	"cmp"
	"errors"
	"fmt"

	kubeclient "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/kubernetes"
	"dynamic-config.rs/fleet/hub/internal/store/link"
	"dynamic-config.rs/fleet/hub/internal/store/vault"
)

// newOpener knows every kind of store; to add one, add a case.
func newOpener(hub *rest.Config) (classes.Opener, error) {
	client, err := kubeclient.NewForConfig(hub)
	if err != nil {
		return nil, fmt.Errorf("reach the hub's cluster: %w", err)
	}
	return func(c *classes.Class, cred classes.Credential) (store.Reader, error) {
		switch c.Spec.Source {
		case v1alpha1.SourceConsul:
			return consul.New(consulConfig(c, cred))
		case v1alpha1.SourceKubernetes:
			return kubernetes.New(client, c.Documents)
		case v1alpha1.SourceVault:
			return vault.New(vaultConfig(c, cred))
		}
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: store.OpOpen, Err: errors.New("this version of the hub does not know the source")}
	}, nil
}

func tlsOf(c *classes.Class, cred classes.Credential) link.TLS {
	return link.TLS{CAPEM: cred.CAPEM, CertPEM: cred.CertPEM, KeyPEM: cred.KeyPEM, ServerName: c.ServerName}
}

func consulConfig(c *classes.Class, cred classes.Credential) consul.Config {
	cfg := consul.Config{Endpoint: c.Spec.Endpoint, Token: cred.Token, TLS: tlsOf(c, cred)}
	if o := c.Spec.Consul; o != nil {
		cfg.Datacenter, cfg.Namespace, cfg.Partition = o.Datacenter, o.Namespace, o.Partition
	}
	return cfg
}

func vaultConfig(c *classes.Class, cred classes.Credential) vault.Config {
	cfg := vault.Config{Endpoint: c.Spec.Endpoint, Credential: cred.Token, TLS: tlsOf(c, cred)}
	if o := c.Spec.Vault; o != nil {
		cfg.Namespace, cfg.Login = o.Namespace, vaultLogin(o.Auth)
		if o.KVVersion != nil {
			cfg.KVVersion = int(*o.KVVersion)
		}
	}
	return cfg
}

// vaultLogin is nil where the credential is a token.
func vaultLogin(a *v1alpha1.VaultAuth) *vault.Login {
	switch {
	case a == nil:
		return nil
	case a.AppRole != nil:
		return &vault.Login{Mount: cmp.Or(string(a.AppRole.Mount), "approle"), RoleID: a.AppRole.RoleID}
	case a.Kubernetes != nil:
		return &vault.Login{Mount: cmp.Or(string(a.Kubernetes.Mount), "kubernetes"), Role: a.Kubernetes.Role}
	case a.JWT != nil:
		return &vault.Login{Mount: cmp.Or(string(a.JWT.Mount), "jwt"), Role: a.JWT.Role}
	}
	return nil
}
