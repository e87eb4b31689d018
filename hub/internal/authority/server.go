package authority

import (
	"crypto/tls"
	"sync"
	"time"
)

// ServerCertificate hands out the hub's certificate and renews it at half its life.
// It is safe for concurrent use.
type ServerCertificate struct {
	authority *Authority
	names     []string

	// mu guards current.
	mu      sync.Mutex
	current *tls.Certificate
}

// NewServerCertificate returns the certificate for the given DNS names and IP
// addresses.
func NewServerCertificate(a *Authority, names []string) *ServerCertificate {
	return &ServerCertificate{authority: a, names: names}
}

// Get is a tls.Config's GetCertificate.
func (s *ServerCertificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.current == nil || s.current.Leaf.NotAfter.Sub(now) < serverLifetime/2 {
		cert, err := s.authority.SignServer(s.names, now)
		if err != nil {
			return nil, err
		}
		s.current = cert
	}
	return s.current, nil
}
