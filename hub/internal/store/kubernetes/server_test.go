package kubernetes_test

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startControlPlane starts a real API server that ends with the test.
func startControlPlane(t *testing.T) *rest.Config {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	binaries := filepath.Join(home, ".cache/dynamic-config-fleet/testbin")
	plane := &envtest.Environment{}
	plane.ControlPlane.GetAPIServer().Path = filepath.Join(binaries, "kubernetes-v1.36.3/kube-apiserver")
	plane.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(binaries, "etcd-v3.6.8/etcd")}
	plane.ControlPlane.KubectlPath = filepath.Join(binaries, "kubernetes-v1.36.3/kubectl")
	config, err := plane.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	return config
}

func newClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
