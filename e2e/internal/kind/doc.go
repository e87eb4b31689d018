// Package kind sets up the whole product on real clusters: one hub and two spoke
// clusters by kind, the product installed by its charts, Consul and Vault as pods of
// the hub cluster. Its fleet is a stage.Stage, on which the stories of the control
// planes play unchanged.
//
// It needs what tools/kind/run.sh provides: kind, kubectl and docker in PATH, and the
// node image. It leaves engine and node image alone.
package kind
