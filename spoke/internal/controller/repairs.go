package controller

import (
	"bytes"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// peace is how long a repaired target has to last for the next repair to count as
	// the first: somebody who edits by hand does not come back within a minute.
	peace = time.Minute
	// maxRepairs in a row without peace are made at once; whoever undoes them all is a
	// program, and fighting it would write for ever.
	maxRepairs = 5
)

// repairs tells drift that is repaired from a writer that fights.
type repairs struct {
	// What was written last, and when.
	uid        types.UID
	generation int64
	contentID  []byte
	at         time.Time
	// lost is when the target was first seen to hold it no more; zero before.
	lost time.Time
	// count of repairs in a row without peace; counted says that it has the one for
	// what is lost now.
	count   int
	counted bool
}

// wrote notes a write. Other content, or another spec, begins anew.
func (r *repairs) wrote(w *written, now time.Time) {
	if !r.same(w) {
		r.count = 0
	}
	r.uid, r.generation, r.contentID = w.uid, w.generation, w.contentID
	r.at, r.lost, r.counted = now, time.Time{}, false
}

// same says whether a write is of what was written last.
func (r *repairs) same(w *written) bool {
	return r.uid == w.uid && r.generation == w.generation && bytes.Equal(r.contentID, w.contentID)
}

// seenLost notes that the target of a Render holds nothing of what was written.
func (r *repairs) seenLost(uid types.UID, generation int64, now time.Time) {
	if r.uid == uid && r.generation == generation && r.lost.IsZero() {
		r.lost = now
	}
}

// fights counts the repair that a write would be, and says whether it is one too many.
func (r *repairs) fights(w *written) bool {
	if !r.same(w) || r.lost.IsZero() {
		return false
	}
	if r.lost.Sub(r.at) >= peace {
		r.count = 0
	}
	if !r.counted {
		r.counted = true
		r.count++
	}
	return r.count > maxRepairs
}
