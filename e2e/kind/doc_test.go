// Package kind_test, behind the build tag kind, plays the product's stories on real
// kind clusters: those of package e2e, and what a kubelet alone can show. Run it by
// make e2e-kind, which builds what it needs.
package kind_test
