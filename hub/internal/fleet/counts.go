package fleet

// Counts are numbers of Renders by state.
type Counts struct {
	// Total Renders in the inventory; Ready are applied; Failed are refused or
	// could not be applied. The rest is on its way.
	Total, Ready, Failed int
}

// Report counts the Renders of one cluster, in all and by class.
type Report struct {
	Counts
	// Classes by their ID.
	Classes map[string]Counts
}

// report counts; false until the inventory is whole.
func (s *Session) report() (Report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report := Report{Classes: map[string]Counts{}}
	for _, r := range s.renders {
		report.Counts = report.add(r)
		report.Classes[r.spec.Class] = report.Classes[r.spec.Class].add(r)
	}
	return report, s.whole
}

// add counts one Render more.
func (c Counts) add(r *render) Counts {
	c.Total++
	switch {
	case r.told == nil:
	case r.failed || r.told.Refusal != nil:
		c.Failed++
	default:
		c.Ready++
	}
	return c
}
