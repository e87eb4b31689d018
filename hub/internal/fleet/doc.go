// Package fleet holds what the hub has to say to each connected cluster: for every
// Render the latest answer, never a queue of events.
//
// The render controller calls Deliver; a session of package syncserver takes
// frames with Session.Next and reports results with Session.Ack. The package does
// no I/O and knows no store.
//
// Invariants: one delivery is unanswered per Render; the bytes that are unanswered
// per session are bounded; one answer waits per Render, and none of a Render that is
// gone; a cluster without a session costs nothing; a newer session of a cluster ends
// the older one; content that the cluster already has is never sent.
package fleet
