package feed

import (
	"slices"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// What one document's request told about its store, and the others of the source
// have to know.

// hush interrupts the watches of a source whose store asked for quiet; they wait
// like everybody else before they begin again.
func (f *Feeds) hush(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.feeds {
		if d.source == s && d.interrupt != nil {
			d.interrupt()
		}
	}
}

// suspend tells those that wait for a fetch that the store is down, and has those that
// failed with it queue. The others keep what they know until they are due.
func (f *Feeds) suspend(s *source) {
	var told []Subscriber
	f.mu.Lock()
	for _, d := range f.feeds {
		if d.source == s {
			told = append(told, d.stall()...)
			d.poke()
		}
	}
	f.mu.Unlock()
	for _, sub := range told {
		f.wake(sub)
	}
}

// resume has those fetched again whose last fetch failed because the store was down,
// whatever their interval: that says nothing any more. Those that wait for a fetch
// have it before.
func (f *Feeds) resume(s *source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.feeds {
		if d.source == s && !d.fetching && isDown(store.ReasonOf(d.err)) {
			d.wanted = true
			d.poke()
		}
	}
}

// OnTurn has call called with a Source's ID when its store is taken to be down, and when it
// answers again. It must not block; it may call Feeds.
func (f *Feeds) OnTurn(call func(sourceID string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onTurn = append(f.onTurn, call)
}

func (f *Feeds) turned(s *source) {
	f.mu.Lock()
	calls := slices.Clone(f.onTurn)
	f.mu.Unlock()
	for _, call := range calls {
		call(s.id.id)
	}
}
