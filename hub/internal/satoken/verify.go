package satoken

import (
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// maxToken bounds what is parsed; a token of an API server is about 1 KiB.
	maxToken = 16 << 10
	// leeway is how far the clocks of the hub and of an API server may be apart.
	leeway = time.Minute
	// maxLifetime is what may be left of a token. An agent asks for ten minutes, the
	// least an API server issues.
	maxLifetime = time.Hour
)

// algorithms are those that kube-apiserver signs with, with its own keys or through
// an external signer.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// Why a token proves nothing. They are for the hub's own log: a peer is not told.
var (
	ErrMalformed = errors.New("it is no token signed with RS256, ES256, ES384 or ES512")
	ErrKey       = errors.New("it is signed with a key that is not pinned")
	ErrSignature = errors.New("its signature is not that of the pinned key")
	ErrClaims    = errors.New("its issuer is another, or it says not when it was issued and ends")
	ErrTime      = errors.New("it is over, not yet begun, or has more than an hour left")
	ErrSubject   = errors.New("it is another ServiceAccount's")
	ErrAudience  = errors.New("its audience is not exactly this hub, this cluster and the key of the request")
)

// Expected is what a token must say.
type Expected struct {
	// Subject is system:serviceaccount:<namespace>:<name>.
	Subject string
	// Audience is the only one.
	Audience string
	// Now is the time.
	Now time.Time
}

// Verify checks a token: its signature by one of the keys, its issuer and its time,
// and that it says exactly what is expected. Its errors are those above.
func (k Keys) Verify(token string, want Expected) error {
	if len(token) > maxToken {
		return ErrMalformed
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return ErrMalformed // the error may quote the token
	}
	header := parsed.Headers[0]
	key := k.find(header.KeyID)
	if key == nil || (key.Algorithm != "" && key.Algorithm != header.Algorithm) {
		return ErrKey
	}
	var claims jwt.Claims
	if err := parsed.Claims(key.Key, &claims); errors.Is(err, jose.ErrCryptoFailure) {
		return ErrSignature
	} else if err != nil {
		return ErrMalformed
	}
	return k.check(claims, want)
}

// check compares what a token of a pinned key says with what it must say.
func (k Keys) check(claims jwt.Claims, want Expected) error {
	switch {
	case claims.Issuer != k.Issuer, claims.Expiry == nil, claims.IssuedAt == nil:
		return ErrClaims
	case claims.ValidateWithLeeway(jwt.Expected{Time: want.Now}, leeway) != nil,
		claims.Expiry.Time().Sub(want.Now) > maxLifetime+leeway:
		return ErrTime
	case claims.Subject != want.Subject:
		return ErrSubject
	case len(claims.Audience) != 1, claims.Audience[0] != want.Audience:
		return ErrAudience
	}
	return nil
}
