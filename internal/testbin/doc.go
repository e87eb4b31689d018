// Package testbin knows the real servers that the tests and the demo talk to,
// where their binaries lie, and how to build those that are missing.
//
// A server is a Go module below tools/testbin that pins one version and nothing
// else of ours. Its binaries are built from source with the Go tool into
//
//	<cache>/dynamic-config-fleet/testbin/<server>-<version>/<binary>
//
// where <cache> is DYNAMIC_CONFIG_TESTBIN, else XDG_CACHE_HOME, else ~/.cache.
// A stamp beside each binary holds the hash of what it was built from, so that
// a change of a pin builds again. Files appear by rename: two builders at once
// do the same work twice and harm nothing.
//
// When KUBEBUILDER_ASSETS is set, etcd and the Kubernetes binaries that lie in
// that folder are used instead of ours.
//
// The package uses the standard library alone: it is run before anything else
// is built. It starts no server; internal/testenv does.
package testbin
