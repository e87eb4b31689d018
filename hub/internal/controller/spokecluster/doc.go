// Package spokecluster acts on what platform administrators say of a cluster: a
// SpokeCluster that is suspended, no longer accepted or gone loses its session at
// once, on every replica, and its conditions say so. It also reports how many Renders a connected cluster has.
package spokecluster
