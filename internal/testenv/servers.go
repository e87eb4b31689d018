package testenv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// controllers are the ones of kube-controller-manager that tests rely on.
var controllers = []string{
	"garbage-collector-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
}

// startEtcd starts etcd and returns its address.
func (c *Cluster) startEtcd(ctx context.Context) (string, error) {
	return retryPorts(func() (string, error) {
		ports, err := FreePorts(ctx, 2)
		if err != nil {
			return "", err
		}
		url, peer := "http://"+loopback+":"+ports[0], "http://"+loopback+":"+ports[1]
		p, err := c.run(ctx, "etcd",
			"--data-dir="+filepath.Join(c.Dir, "etcd"),
			"--listen-client-urls="+url, "--advertise-client-urls="+url,
			"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
			"--initial-cluster=default="+peer,
			"--unsafe-no-fsync", // the data does not outlive the process
			"--log-level=error",
		)
		if err != nil {
			return "", err
		}
		return url, p.waitReady(ctx, func(ctx context.Context) error {
			_, err := get(ctx, http.DefaultClient, url+"/health", nil)
			return err
		})
	})
}

// startAPIServer starts kube-apiserver and returns its address.
func (c *Cluster) startAPIServer(ctx context.Context, keys *pki, etcd string, options Options) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(keys.caPEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()

	return retryPorts(func() (string, error) {
		ports, err := FreePorts(ctx, 1)
		if err != nil {
			return "", err
		}
		p, err := c.run(ctx, "kube-apiserver", apiServerArgs(ports[0], keys, etcd, options)...)
		if err != nil {
			return "", err
		}
		url := "https://" + loopback + ":" + ports[0]
		return url, p.waitReady(ctx, func(ctx context.Context) error {
			_, err := get(ctx, &http.Client{Transport: transport}, url+"/readyz", nil)
			return err
		})
	})
}

// apiServerArgs are the arguments of kube-apiserver.
func apiServerArgs(port string, keys *pki, etcd string, options Options) []string {
	issuer := options.Issuer
	if issuer == "" {
		issuer = DefaultIssuer
	}
	return append([]string{
		"--bind-address=" + loopback, "--secure-port=" + port, "--advertise-address=" + loopback,
		// No Service leads to it: loopback is refused as an endpoint.
		"--endpoint-reconciler-type=none",
		"--etcd-servers=" + etcd,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=RBAC",
		"--client-ca-file=" + keys.caFile,
		"--tls-cert-file=" + keys.certFile, "--tls-private-key-file=" + keys.keyFile,
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + keys.tokenPubFile,
		"--service-account-signing-key-file=" + keys.tokenKeyFile,
		"--profiling=false",
	}, options.APIServerArgs...)
}

// startControllers starts kube-controller-manager and waits until it has made
// the default ServiceAccount, so that all controllers have begun.
func (c *Cluster) startControllers(ctx context.Context, keys *pki) error {
	p, err := c.run(ctx, "kube-controller-manager",
		"--kubeconfig="+c.Kubeconfig,
		"--controllers="+strings.Join(controllers, ","),
		"--service-account-private-key-file="+keys.tokenKeyFile,
		"--root-ca-file="+keys.caFile,
		"--leader-elect=false", "--secure-port=0", "--profiling=false",
	)
	if err != nil {
		return err
	}
	return p.waitReady(ctx, func(ctx context.Context) error {
		key := client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "default"}
		return c.Client.Get(ctx, key, &corev1.ServiceAccount{})
	})
}

// run starts a server that stops with the cluster.
func (c *Cluster) run(ctx context.Context, name string, args ...string) (*process, error) {
	p, err := startProcess(ctx, c.Dir, name, args...)
	if err != nil {
		return nil, err
	}
	c.processes = append(c.processes, p)
	return p, nil
}
