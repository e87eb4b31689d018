package fleet

import "dynamic-config.rs/fleet/api/v1alpha1"

// Code is how a cluster answered a delivery.
type Code int

// The answers to a delivery.
const (
	// Applied: written, or there already.
	Applied Code = iota + 1
	// Superseded: the cluster has another generation or object by now.
	Superseded
	// Failed: not written; the cluster asks again when that may help.
	Failed
)

// Result is the answer of a cluster to one delivery.
type Result struct {
	Nonce uint64
	ID    ID
	Code  Code
	// Reason of the Applied condition where the delivery failed, if the cluster gave
	// one. The cluster's own words stay there.
	Reason string
}

// unknownFailure stands for the reason of a cluster that gives none.
const unknownFailure = v1alpha1.ReasonApplyFailed

// Frame is the next thing to send about one Render. Exactly one of Deliver, Current
// and Refusal is meant: Deliver when Nonce is not 0, Refusal when the answer has
// one, Current otherwise.
type Frame struct {
	ID     ID
	Nonce  uint64
	Answer Answer
}
