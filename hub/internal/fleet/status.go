package fleet

import "time"

// Status is what the serving session of a cluster has come to, for people.
type Status struct {
	Report
	// Whole says that an inventory said what Renders there are.
	Whole bool
	// Unacked deliveries, their bytes, and when the oldest of them was sent.
	Unacked, UnackedBytes int
	OldestUnacked         time.Time
	// Applied is when the cluster last said that a target holds what was delivered;
	// zero when it never did in this session.
	Applied time.Time
	// Renders are those that were asked for.
	Renders []RenderStatus
}

// RenderStatus is what a cluster was told of one Render, and answered.
type RenderStatus struct {
	ID    ID
	Class string
	Outcome
	// Settled says that there is an outcome of the present spec; else it is waited for.
	Settled bool
	// Suspended Renders are owed no answer.
	Suspended bool
	// Since is when the outcome became what it is, as far back as this replica knows;
	// while it is waited for, when the Render was asked for or its delivery was sent.
	Since time.Time
	// Sent is when the delivery left that is not answered; zero for none.
	Sent time.Time
	// Version of the document that was delivered last, for people.
	Version string
}

// Outcome is what became of a Render: that it is applied, or else why not.
type Outcome struct {
	// Refusal of the hub; nil for none.
	Refusal *Refusal
	// Failure is the cluster's reason for not applying a delivery; empty for none.
	Failure string
}

// Ready says that the target holds what it should.
func (o Outcome) Ready() bool { return o.Refusal == nil && o.Failure == "" }

// same leaves the words of a refusal out: it is the same while its reasons are.
func (o Outcome) same(other Outcome) bool {
	a, b := o.Refusal, other.Refusal
	if a == nil || b == nil {
		return a == nil && b == nil && o.Failure == other.Failure
	}
	return a.ReadyReason == b.ReadyReason && a.CauseReason == b.CauseReason
}

// Status returns what the serving session of a cluster has come to, with the Renders
// that keep asks for. It reports false for a cluster without a session here. keep is
// called under the session's lock.
func (f *Fleet) Status(cluster string, keep func(*RenderStatus) bool) (Status, bool) {
	s := f.serving(cluster)
	if s == nil {
		return Status{}, false
	}
	report, whole := s.report()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Report: report, Whole: whole, UnackedBytes: s.unacked, Applied: s.applied}
	for id, r := range s.renders {
		if r.inflight != nil {
			status.Unacked++
			if sent := r.moved.time(); status.OldestUnacked.IsZero() || sent.Before(status.OldestUnacked) {
				status.OldestUnacked = sent
			}
		}
		if one := r.status(id); keep(&one) {
			status.Renders = append(status.Renders, one)
		}
	}
	return status, true
}

// RenderStatus returns what a cluster was told of one Render, and answered. It reports
// false for a Render that its serving session does not have.
func (f *Fleet) RenderStatus(cluster string, id ID) (RenderStatus, bool) {
	s := f.serving(cluster)
	if s == nil {
		return RenderStatus{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.renders[id]
	if !ok {
		return RenderStatus{}, false
	}
	return r.status(id), true
}

func (r *render) status(id ID) RenderStatus {
	status := RenderStatus{
		ID: id, Class: r.spec.Class, Suspended: r.spec.Suspended, Settled: r.told != nil,
		Outcome: r.outcome, Since: r.since.time(),
	}
	if !status.Settled {
		status.Since = r.moved.time()
	}
	if r.inflight != nil {
		status.Sent = r.moved.time()
	}
	if latest := r.latest(); latest != nil && latest.Content != nil {
		status.Version = latest.Content.SourceVersion
	}
	return status
}

// instant is a time in a third of the space: there are two in each Render. It is 0 for
// none.
type instant int64

func now() instant { return instant(time.Now().UnixNano()) }

func (i instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i))
}

// conclude notes what became of a Render; an outcome that comes again is as old as it
// was.
func (r *render) conclude(outcome Outcome) {
	if r.since == 0 || !r.outcome.same(outcome) {
		r.since = now()
	}
	r.outcome = outcome
}

// inherit takes over since when outcomes are what they are, of the session before.
func (s *Session) inherit(older *Session) {
	type past struct {
		uid     string
		outcome Outcome
		since   instant
	}
	older.mu.Lock()
	known := make(map[ID]past, len(older.renders))
	for id, r := range older.renders {
		known[id] = past{r.spec.UID, r.outcome, r.since}
	}
	applied := older.applied
	older.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.applied.IsZero() {
		s.applied = applied
	}
	for id, r := range s.renders {
		if was, ok := known[id]; ok && was.uid == r.spec.UID && r.since == 0 {
			r.outcome, r.since = was.outcome, was.since
		}
	}
}
