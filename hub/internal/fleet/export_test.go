package fleet

// Queued is how many Renders are in the session's queues.
func (s *Session) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news.line.Len() + s.content.line.Len()
}
