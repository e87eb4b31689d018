// Package testenv starts the real servers that tests and the demo talk to: whole
// Kubernetes control planes without nodes (etcd, kube-apiserver with RBAC, and
// the controllers that matter of kube-controller-manager), Consul, and Vault.
//
// Every server listens on loopback, on a free port, and starts with no state.
// Start functions wait until the server answers and return a handle with Stop.
// The functions that take a testing.TB call Start, fail the test when that
// fails, and stop the server when the test ends. Several tests of a package
// share one control plane through Main.
// A Proxy stands between a client and servers, and fails as networks do.
//
// No server outlives the process that started it, also when that panics or is
// killed: on Linux the kernel kills the servers with it. Nothing is ever
// skipped: a binary that is missing is an error that names make testbin.
package testenv
