package feed

import (
	"context"
	"errors"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// ErrBusy says that the documents of a source leave no room for one more request
// before the context's end.
var ErrBusy = errors.New("the source is busy with its documents")

// Check asks a source's store whether it answers and accepts the credential, with
// the reader that its feeds share, at the class's rate, before what is periodic.
// Without feeds it opens a reader for the moment. While the store is down it is asked
// only when a probe is due; else the answer is why it is down. It answers an
// *store.Error, ErrBusy, or the context's error when it is cancelled. A store that
// cannot be asked is taken to be well once it opens.
func (f *Feeds) Check(ctx context.Context, src Source) error {
	s := f.borrow(src)
	defer f.giveBack(s)
	if why, due := s.gate.outage(); why != nil && !due {
		return about(why, store.OpCheck, "")
	}
	reader, err := s.get()
	if err != nil {
		return err
	}
	prober, ok := reader.(store.Prober)
	if !ok {
		return nil
	}
	done, err := s.Enter(store.WithPriority(ctx, store.Prompt))
	if errors.Is(err, ErrBusy) || errors.Is(err, context.DeadlineExceeded) {
		if why, _ := s.gate.outage(); why != nil {
			return about(why, store.OpCheck, "")
		}
		return ErrBusy
	}
	if err != nil {
		return err
	}
	err = inTime(store.OpCheck, "", prober.Probe(ctx))
	done(err)
	return err
}

// borrow holds a source open as a feed does.
func (f *Feeds) borrow(src Source) *source {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sourceOf(src)
	s.feeds++
	return s
}

// sourceOf finds a source, or makes it; called with mu held.
func (f *Feeds) sourceOf(src Source) *source {
	id := sourceID{src.ID, src.Revision}
	s, ok := f.sources[id]
	if !ok {
		s = newSource(src, f)
		f.sources[id] = s
	}
	return s
}

// giveBack lets go of a source; the last one closes it.
func (f *Feeds) giveBack(s *source) {
	f.mu.Lock()
	s.feeds--
	unused := s.feeds == 0
	if unused {
		delete(f.sources, s.id)
	}
	f.mu.Unlock()
	if unused {
		s.close()
	}
}
