package web

import (
	"crypto/sha256"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

const (
	// sessionLife is how long a login holds, at most.
	sessionLife = 30 * time.Minute
	// bearerLife is how long the review of a token that comes with each request holds.
	bearerLife = time.Minute
	// permitAge is how old the review of a user's access may be.
	permitAge = time.Minute
	// maxSessions bounds those that are remembered: 1 KiB each.
	maxSessions = 1024
)

// secretHash stands for a secret that is not kept: a session's ID or a token. Both are
// too random to be found from it.
type secretHash [sha256.Size]byte

// hashOf hashes a secret; its kind keeps a token from counting as a session's ID.
func hashOf(kind, secret string) secretHash { return sha256.Sum256([]byte(kind + "\x00" + secret)) }

// visit is a user who was let in.
type visit struct {
	user authenticationv1.UserInfo
	// ends is when the user has to show a token again.
	ends time.Time

	// mu guards permitted, and is held while the user's access is reviewed.
	mu sync.Mutex
	// permitted is when the user was last known to have access.
	permitted time.Time
}

// visits are the users that were let in. No token is kept. They are safe for concurrent
// use.
type visits struct {
	mu     sync.Mutex // guards byHash
	byHash map[secretHash]*visit
}

// get returns a visit that is not over; nil for none.
func (v *visits) get(of secretHash, now time.Time) *visit {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.byHash[of]
	if found == nil || !now.Before(found.ends) {
		return nil
	}
	return found
}

// add remembers a visit. Where there are too many, those that are over are forgotten,
// and if there are none, the one that would end first.
func (v *visits) add(of secretHash, added *visit, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byHash == nil {
		v.byHash = map[secretHash]*visit{}
	}
	if len(v.byHash) >= maxSessions {
		v.shrink(now)
	}
	v.byHash[of] = added
}

func (v *visits) shrink(now time.Time) {
	var first secretHash
	var ends time.Time
	for of, one := range v.byHash {
		if !now.Before(one.ends) {
			delete(v.byHash, of)
		} else if ends.IsZero() || one.ends.Before(ends) {
			first, ends = of, one.ends
		}
	}
	if len(v.byHash) >= maxSessions {
		delete(v.byHash, first)
	}
}

func (v *visits) remove(of secretHash) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byHash, of)
}
