package store

import "context"

// Gate lets the requests of one class pass, in the order of their priority with a share
// for the oldest. It is safe for concurrent use.
type Gate interface {
	// Admit waits until a request may be sent: at the class's rate, and not while the
	// store wants quiet. It answers the context's error when the context ends first.
	// For requests that block on purpose.
	Admit(ctx context.Context) (Done, error)
	// Enter waits for one of the class's places for requests at once as well; the
	// request's end gives it back.
	Enter(ctx context.Context) (Done, error)
}

// Done says how a request ended that a Gate let pass, as soon as it did: with nil, an
// *Error, or the context's error when it was given up or not sent after all. It is
// called once.
type Done func(err error)

// Priority orders the requests that wait for one class.
type Priority int

const (
	// First is for a document that nobody could be given yet.
	First Priority = iota
	// Prompt is for a document that somebody asks for.
	Prompt
	// Periodic is for a document whose interval is over, and for all else.
	Periodic
	// Priorities is how many there are.
	Priorities
)

type priorityKey struct{}

// WithPriority gives the requests of a call their priority.
func WithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// PriorityOf is the priority that WithPriority gave; Periodic without.
func PriorityOf(ctx context.Context) Priority {
	if p, ok := ctx.Value(priorityKey{}).(Priority); ok {
		return p
	}
	return Periodic
}
