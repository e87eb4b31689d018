package authority

import (
	"crypto/tls"
	"sync"
	"time"
)

// ServerCertificate hands out the hub's certificate. It renews it at half its life and
// whenever another root signs. It is safe for concurrent use.
type ServerCertificate struct {
	source Source
	names  []string

	// mu guards the certificate at hand and who signed it.
	mu       sync.Mutex
	current  *tls.Certificate
	signedBy *Authority
}

// NewServerCertificate returns the certificate for the given DNS names and IP
// addresses.
func NewServerCertificate(source Source, names []string) *ServerCertificate {
	return &ServerCertificate{source: source, names: names}
}

// Get is a tls.Config's GetCertificate.
func (s *ServerCertificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, authority := time.Now(), s.source.Current()
	if s.current == nil || s.signedBy != authority || s.current.Leaf.NotAfter.Sub(now) < serverLifetime/2 {
		cert, err := authority.SignServer(s.names, now)
		if err != nil {
			return nil, err
		}
		s.current, s.signedBy = cert, authority
	}
	return s.current, nil
}
