// Package identity says who a cluster is: its name, the URI in its certificate,
// the tokens it first enrols with, and the typed reasons for which an identity is
// refused. Both sides use it. It does no I/O and signs nothing.
//
// Invariant: the only proof of a cluster's name is the single URI SAN of a client
// certificate that chains to the hub's roots. Nothing a peer says counts.
package identity
