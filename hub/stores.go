package hub

import (
	"errors"
	"fmt"

	kubeclient "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/consul"
	"dynamic-config.rs/fleet/hub/internal/store/kubernetes"
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
			return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: "open", Err: errors.New("this version of the hub does not read from Vault")}
		}
		return nil, &store.Error{Reason: v1alpha1.ReasonClassInvalid, Op: "open", Err: errors.New("this version of the hub does not know the source")}
	}, nil
}

func consulConfig(c *classes.Class, cred classes.Credential) consul.Config {
	cfg := consul.Config{Endpoint: c.Spec.Endpoint, Token: cred.Token, CAPEM: cred.CAPEM, ServerName: c.ServerName}
	if o := c.Spec.Consul; o != nil {
		cfg.Datacenter, cfg.Namespace, cfg.Partition = o.Datacenter, o.Namespace, o.Partition
	}
	return cfg
}
