// Package limit bounds what strangers may ask for, by where they ask from. Packages
// enroll and web say how much.
package limit

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxBuckets bounds what is remembered of keys: less than 1 MiB.
const maxBuckets = 4096

// Take takes a token, or says when there is one.
func Take(limiter *rate.Limiter, now time.Time) time.Duration {
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Source is where an address and port is; of IPv6 the network, of which a host has all
// addresses. It is empty for what is no such address.
func Source(address string) string {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	addr := parsed.Addr().Unmap()
	if addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// Buckets are limiters by key. They are safe for concurrent use.
type Buckets struct {
	// Limit and Burst of each.
	Limit rate.Limit
	Burst int

	mu    sync.Mutex // guards byKey
	byKey map[string]*rate.Limiter
}

// Get returns the limiter of a key. Where there are too many, all are forgotten: each
// gets its burst anew, so something else must bound the whole.
func (b *Buckets) Get(key string) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	limiter, ok := b.byKey[key]
	if ok {
		return limiter
	}
	if b.byKey == nil || len(b.byKey) >= maxBuckets {
		b.byKey = make(map[string]*rate.Limiter)
	}
	limiter = rate.NewLimiter(b.Limit, b.Burst)
	b.byKey[key] = limiter
	return limiter
}
