// Package spokecluster acts on what platform administrators and other replicas say of
// a cluster. On every replica a SpokeCluster that is suspended, no longer accepted or
// gone loses its session at once, and so does one whose newer session is elsewhere;
// each replica records what it holds where the status says otherwise, and reports how
// many Renders its clusters have. On the leader alone the conditions are kept, of
// sessions too whose replica died.
//
// Invariant: what ends a session (Reconciler) reads the cache alone. What waits for the
// API server (Recorder, Counter, Keeper) has its own goroutines.
package spokecluster
