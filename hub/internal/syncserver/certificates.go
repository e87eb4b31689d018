package syncserver

import (
	"sync"
	"time"
)

// certificates are the ends of those that the clusters of open sessions showed.
type certificates struct {
	mu   sync.Mutex // guards ends
	ends map[string]*time.Time
}

// hold notes a cluster's until release is called, or a newer session's is noted.
func (c *certificates) hold(cluster string, notAfter time.Time) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[string]*time.Time{}
	}
	c.ends[cluster] = &notAfter
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ends[cluster] == &notAfter {
			delete(c.ends, cluster)
		}
	}
}

// Certificates are the ends of the certificates that the clusters with a session here
// showed when they opened it.
func (s *Server) Certificates() map[string]time.Time {
	s.certificates.mu.Lock()
	defer s.certificates.mu.Unlock()
	ends := make(map[string]time.Time, len(s.certificates.ends))
	for cluster, notAfter := range s.certificates.ends {
		ends[cluster] = *notAfter
	}
	return ends
}
