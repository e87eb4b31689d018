// Package satoken verifies tokens of a workload cluster's ServiceAccounts, as an API
// server issues them, against keys that were pinned for that cluster. Package
// registry is its caller. It does no I/O and has no clock.
//
// Invariants: only a pinned key verifies, found by its ID; nothing in the token's
// header names another (jku, x5u, jwk and x5c count for nothing). Only the algorithms
// that Kubernetes signs with are known: never none, never a shared secret. Keys are
// public: a private one is refused, not kept. No error holds any text of a token.
package satoken
