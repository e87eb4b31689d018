// Package syncserver serves the sessions of spokes: it feeds their inventories to
// package mirror, and sends what package fleet has for them.
//
// A session is one bidirectional stream. Its handler goroutine owns it: it takes the
// received frames and watches the clocks. One goroutine receives, one takes answers
// from the outbox, one sends, and one records the cluster's keys when they come; all end
// when the handler returns, which ends the stream. The receiver never sends, and the
// handler never waits for the API server once the session is open.
//
// Invariants: the cluster comes from the client certificate and from nothing in a
// frame; an inventory counts only when its last page has come; a peer that does not
// read for 30 s, or says nothing for three heartbeats, loses its session.
package syncserver
