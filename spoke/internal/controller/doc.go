// Package controller keeps the Renders of a workload cluster.
//
// It turns each Render and what its target holds into a spec for the hub, applies
// what the hub delivers, and writes the Render's status. It is the only writer of
// that status, and conclude is the only place that maps an outcome to conditions.
//
// Invariants: the hub's answers are handed over without blocking, the latest for
// a Render wins, and one is used only for the UID and generation it speaks of;
// content is held only until it is applied; targets are cached as metadata and
// Secret data never; the spec of a Render is never written; there is no
// finalizer, the API server's garbage collector takes targets. Losing the hub
// touches no target.
//
// The wiring in package spoke is the only caller.
package controller
