package feed

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// tripAfter is how many requests in a row fail before the store is taken to be down:
// more than a lost connection costs, and no more than one class has under way at once.
const tripAfter = 5

// probeDelays are between the probes of a store that is down: 1 s, doubling; with
// jitter 15 s at most.
var probeDelays = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 12500 * time.Millisecond}

// breaker judges by the ends of a source's requests whether its store is down. While
// it is, requests pass one at a time, as probes. It is not safe for concurrent use.
type breaker struct {
	failures int          // in a row, while the store is up
	why      *store.Error // the latest failure while it is down, about no key; nil while it is up
	probing  bool         // a probe is under way
	retryAt  time.Time    // no probe before; zero while the store is up
	delays   wait.Backoff
}

// turned says what the end of a request changed.
type turned int

const (
	stays turned = iota
	down
	up
)

func (b *breaker) isDown() bool { return b.why != nil }

// after takes note of the end of a request.
func (b *breaker) after(err error, probe bool, now time.Time) turned {
	if probe {
		b.probing = false
	}
	failure, typed := errors.AsType[*store.Error](err)
	switch {
	case err != nil && !typed:
		return stays // given up, or not sent: says nothing of the store
	case err == nil || !isDown(failure.Reason):
		return b.heal()
	case b.isDown() && !probe:
		return stays // sent while the store was still taken to be up
	}
	return b.fail(failure, now)
}

func (b *breaker) heal() turned {
	was := b.isDown()
	*b = breaker{}
	if was {
		return up
	}
	return stays
}

func (b *breaker) fail(failure *store.Error, now time.Time) turned {
	was := b.isDown()
	if !was {
		b.failures++
		if b.failures < tripAfter {
			return stays
		}
		b.delays = probeDelays
	}
	b.why = &store.Error{Reason: failure.Reason, Err: failure.Err}
	b.retryAt = now.Add(b.delays.Step())
	if was {
		return stays
	}
	return down
}

// isDown says whether a reason is that of a store that fails as a whole, until it is
// seen to.
func isDown(reason string) bool {
	switch reason {
	case v1alpha1.ReasonStoreUnreachable, v1alpha1.ReasonStoreTimeout, v1alpha1.ReasonStoreTLSFailed, v1alpha1.ReasonStoreSealed:
		return true
	}
	return false
}
