package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

const (
	// hubContext is the context of the hub cluster; a spoke's has the spoke's name.
	hubContext = "hub"
	// shop is the namespace of the story's tenants.
	shop = "shop"
)

// kubeconfigPath is the file with a context for each cluster of the demo that runs in
// this repository. Whoever reads it may do anything there.
func kubeconfigPath() (string, error) {
	root, err := stage.FindRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "out", "demo.kubeconfig"), nil
}

// checkAlone refuses to take the file from a demo that runs.
func checkAlone(ctx context.Context) error {
	path, err := kubeconfigPath()
	if err != nil {
		return err
	}
	config, err := readKubeconfig(path)
	if err != nil {
		return nil //nolint:nilerr // no file, or none that is of use to anybody
	}
	hub, err := hubClient(config)
	if err == nil {
		_, err = publishedAddress(ctx, hub)
	}
	if err != nil {
		return nil //nolint:nilerr // it is of a demo that was killed
	}
	return fmt.Errorf("a demo runs here already: %s has its clusters", path)
}

// writeKubeconfig writes the contexts of a stage.
func writeKubeconfig(path string, s *stage.Stage) error {
	config := clientcmdapi.NewConfig()
	addContext(config, hubContext, stage.Namespace, s.Hub.Config)
	for _, spoke := range s.Spokes {
		addContext(config, spoke.Name, shop, spoke.Config)
		config.CurrentContext = spoke.Name
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, path)
}

// joinKubeconfig adds the context of one more cluster.
func joinKubeconfig(path, name string, cluster *rest.Config) error {
	config, err := readKubeconfig(path)
	if err != nil {
		return err
	}
	addContext(config, name, shop, cluster)
	return clientcmd.WriteToFile(*config, path)
}

// leaveKubeconfig takes the context of a cluster away again. The file may be gone with
// the demo.
func leaveKubeconfig(path, name string) error {
	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	delete(config.Contexts, name)
	delete(config.Clusters, name)
	delete(config.AuthInfos, name)
	return clientcmd.WriteToFile(*config, path)
}

// readKubeconfig reads the file of a demo that runs.
func readKubeconfig(path string) (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no demo runs here: make demo KEEP=1 starts one, and stays (%w)", err)
	}
	return config, err
}

func addContext(config *clientcmdapi.Config, name, namespace string, cluster *rest.Config) {
	config.Clusters[name] = &clientcmdapi.Cluster{Server: cluster.Host, CertificateAuthorityData: cluster.CAData}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cluster.CertData, ClientKeyData: cluster.KeyData}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
}
