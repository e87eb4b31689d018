package store

// maxOvertaking is how many requests in a row may pass before one that came earlier.
const maxOvertaking = 4

// Share says which of the requests that wait is next: the most urgent, but after four
// in a row that passed before an older one, the oldest. So what is least urgent has a
// fifth of a class's requests however many come that are more urgent. Its zero value
// is ready; it is not safe for concurrent use.
type Share struct {
	overtaking int // how many in a row
}

// Fronts are the first requests of each priority that may pass, by their number in the
// order of coming, from 1; 0 for none.
type Fronts [Priorities]uint64

// Next is the priority whose first request is next; false when there is none.
func (s *Share) Next(fronts Fronts) (next Priority, found bool) {
	for p, number := range fronts {
		if number > 0 && (!found || s.overtaking >= maxOvertaking && number < fronts[next]) {
			next, found = Priority(p), true
		}
	}
	return next, found
}

// Passed takes note of which request passed, of those that might have.
func (s *Share) Passed(passed uint64, fronts Fronts) {
	for _, number := range fronts {
		if number > 0 && number < passed {
			s.overtaking++
			return
		}
	}
	s.overtaking = 0
}
