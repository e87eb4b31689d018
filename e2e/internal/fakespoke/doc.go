// Package fakespoke speaks the agent's side of the protocol without a cluster behind
// it: it keeps content IDs instead of targets. A thousand of them fit into one
// process, so that a benchmark can load a real hub with a whole fleet.
package fakespoke
