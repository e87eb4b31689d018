// Package class says of each class whether it can be used: its credential is there,
// its store answers and accepts it. It also sums up how many Renders use it, from
// what every replica records in the SpokeClusters, so that all replicas come to the
// same status.
//
// It reads no document and decides about no Render.
package class
