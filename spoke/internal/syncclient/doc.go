// Package syncclient holds the agent's session with the hub.
//
// Run enrols when there is no valid certificate, connects with it, says Hello, sends
// the whole inventory of Render specs in pages and then deltas, and hands the hub's
// answers to a Receiver. When the session ends it opens the next one, for ever, with
// jitter; a session that ended soon counts as one that did not open. Where the hub
// asks for another session, or the certificate was renewed, the next one takes over
// before the older one is closed. An agent whose session another agent took leaves it
// for a while.
//
// Invariants: no frame names the cluster, the certificate does; a frame holds the
// latest state, so the outbox is a map and its size is bounded by the number of
// Renders; one goroutine a session sends, the one that receives never does; only the
// last page of a whole inventory is marked last; a result is sent only in the session
// whose delivery it answers; once a session has taken over, answers in an older one
// count for nothing.
//
// The wiring in package spoke is the only caller. The package knows nothing of
// Kubernetes objects.
package syncclient
