package testenv

import (
	"context"
	"log"
	"testing"
)

// ControlPlane starts a control plane that stops when the test ends.
func ControlPlane(tb testing.TB, configure ...func(*Options)) *Cluster {
	tb.Helper()
	var options Options
	for _, f := range configure {
		f(&options)
	}
	cluster, err := Start(tb.Context(), options)
	return started(tb, cluster, err)
}

// ControlPlanes starts n control planes at the same time that stop when the
// test ends.
func ControlPlanes(tb testing.TB, n int) []*Cluster {
	tb.Helper()
	all, err := StartAll(tb.Context(), make([]Options, n)...)
	if err != nil {
		tb.Fatal(err)
	}
	for _, cluster := range all {
		started(tb, cluster, nil)
	}
	return all
}

// WithoutControllers leaves kube-controller-manager out.
func WithoutControllers(o *Options) { o.NoControllers = true }

// Consul starts a Consul server that stops when the test ends.
func Consul(tb testing.TB, configure ...func(*ConsulOptions)) *ConsulServer {
	tb.Helper()
	var options ConsulOptions
	for _, f := range configure {
		f(&options)
	}
	server, err := StartConsul(tb.Context(), options)
	return started(tb, server, err)
}

// WithACL turns Consul's ACLs on.
func WithACL(o *ConsulOptions) { o.ACL = true }

// WithTLS has Consul serve HTTPS, and take clients with a certificate of ca alone.
func WithTLS(ca *Authority) func(*ConsulOptions) {
	return func(o *ConsulOptions) { o.TLS = ca }
}

// Following makes Consul a follower of another server.
func Following(leader *ConsulServer) func(*ConsulOptions) {
	return func(o *ConsulOptions) { o.Follow = leader }
}

// Vault starts a Vault server that stops when the test ends.
func Vault(tb testing.TB) *VaultServer {
	tb.Helper()
	server, err := StartVault(tb.Context())
	return started(tb, server, err)
}

// started fails the test when a server did not start, and stops it at its end
// when it did.
func started[S interface{ Stop() error }](tb testing.TB, server S, err error) S {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// Main is the body of a TestMain: it starts one control plane for all tests of
// a package, gives it to use, runs the tests and stops it. Tests that share it
// keep apart by namespace.
func Main(m *testing.M, use func(*Cluster), configure ...func(*Options)) {
	var options Options
	for _, f := range configure {
		f(&options)
	}
	// A TestMain is a main: there is no context above it.
	cluster, err := Start(context.Background(), options)
	if err != nil {
		// To return would count as success.
		log.Fatalf("testenv: %v", err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			log.Printf("testenv: %v", err)
		}
	}()
	use(cluster)
	m.Run()
}
