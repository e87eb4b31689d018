package testbin

import (
	"fmt"
	"slices"
	"strings"
)

// Binary is one executable of a server.
type Binary struct {
	// Name is the file name of the executable.
	Name string
	// Package is what is built, an import path or "." for the module itself.
	Package string
}

// Server is one pinned server: a Go module and the binaries built from it.
type Server struct {
	// Name is the server's name and the folder of its module below
	// tools/testbin.
	Name string
	// Version is the pinned version, as the module's go.mod states it.
	Version string
	// LDFlags are passed to the linker beside -s -w.
	LDFlags string
	// Binaries are built in this order.
	Binaries []Binary
	// Assets says that KUBEBUILDER_ASSETS may provide the binaries.
	Assets bool
}

// servers is every server the tests know. The versions repeat the go.mod files
// below tools/testbin; a test compares them.
var servers = []Server{
	{
		Name: "etcd", Version: "v3.6.8", Assets: true,
		Binaries: []Binary{{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"}},
	},
	{
		Name: "kubernetes", Version: "v1.36.3", Assets: true,
		LDFlags: "-X k8s.io/component-base/version.gitVersion=v1.36.3" +
			" -X k8s.io/component-base/version.gitMajor=1" +
			" -X k8s.io/component-base/version.gitMinor=36",
		Binaries: []Binary{
			{Name: "kube-apiserver", Package: "k8s.io/kubernetes/cmd/kube-apiserver"},
			{Name: "kube-controller-manager", Package: "k8s.io/kubernetes/cmd/kube-controller-manager"},
			{Name: "kubectl", Package: "k8s.io/kubernetes/cmd/kubectl"},
		},
	},
	{
		Name: "consul", Version: "v1.14.11",
		Binaries: []Binary{{Name: "consul", Package: "github.com/hashicorp/consul"}},
	},
	{
		Name: "vault", Version: "v1.13.1",
		Binaries: []Binary{{Name: "vaultdev", Package: "."}},
	},
}

// Servers returns the servers of these names in the order of the table, or all
// of them when no name is given.
func Servers(names ...string) ([]Server, error) {
	if len(names) == 0 {
		return slices.Clone(servers), nil
	}
	var chosen []Server
	var known []string
	for _, s := range servers {
		known = append(known, s.Name)
		if slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("no server %q: there are %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}
