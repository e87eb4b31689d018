package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
)

// joinTokenBytes is the entropy of a join token: 256 bits, so that a plain hash of
// one cannot be searched.
const joinTokenBytes = 32

// joinTokenPrefix makes a join token recognisable to people and secret scanners.
const joinTokenPrefix = "dcj_"

// NewJoinToken returns a fresh join token and the hash to store for it.
func NewJoinToken() (token, hash string) {
	raw := make([]byte, joinTokenBytes)
	_, _ = rand.Read(raw) // never fails: it ends the program instead (crypto/rand)
	token = joinTokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	return token, HashJoinToken(token)
}

// HashJoinToken is the form in which a join token is stored.
func HashJoinToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// JoinTokenMatches compares a token with a stored hash in constant time.
func JoinTokenMatches(token, hash string) bool {
	return subtle.ConstantTimeCompare([]byte(HashJoinToken(token)), []byte(hash)) == 1
}
