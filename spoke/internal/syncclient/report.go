package syncclient

import (
	"time"

	"github.com/go-logr/logr"
)

// trouble is why there is no new session.
type trouble struct {
	reason string
	// refused says that the hub does not want this agent.
	refused bool
	// held says that the session before goes on meanwhile.
	held bool
}

// why says it for people.
func (t trouble) why() string {
	if t.refused {
		return "the hub refused this agent"
	}
	return "the hub cannot be reached"
}

// report tells how an attempt ended: what is ordinary at info, and what keeps the agent
// from a session once, when its cause changes, as an error and to the receiver.
func (c *Client) report(log logr.Logger, end ending, delay time.Duration) {
	now := trouble{held: c.serving != nil}
	now.reason, now.refused = causeOf(end.err, c.lastHandshake())
	log = log.WithValues("held", now.held, "retryIn", delay.String())
	if end.established && !now.refused {
		log.Info("Another session is wanted", "cause", end.err.Error(), "reason", reasonOf(end.err))
		return
	}
	log = log.WithValues("reason", now.reason)
	switch {
	case now == c.told:
		log.V(1).Info("There is still no session", "cause", end.err.Error())
		return
	case now.refused:
		log.Error(end.err, "The hub refused this agent")
	default:
		log.Error(end.err, "The hub cannot be reached")
	}
	c.told = now
	if !now.held {
		c.config.Receiver.NoSession(now.why(), now.reason)
	}
}
