package feed

import (
	"sync"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// maxMemos bounds what is kept with one version: more shapes, files and sections
// of one document than this are computed each time.
const maxMemos = 256

// Document is one version of a document, shared by all its subscribers.
type Document struct {
	*store.Document

	grew func(size int) // counts what is kept with it; nil where nobody counts
	// mu guards memos.
	mu    sync.Mutex
	memos map[any]func() any
}

// Memo answers what compute answers for the key, computed once for this version of
// the document and shared: nobody may change it. The key is comparable and holds
// all that compute depends on besides the document. What is Sized counts as held.
func (d *Document) Memo(key any, compute func() any) any {
	return d.memo(key, compute)()
}

func (d *Document) memo(key any, compute func() any) func() any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.memos[key]; ok {
		return known
	}
	if len(d.memos) >= maxMemos {
		return compute
	}
	if d.memos == nil {
		d.memos = map[any]func() any{}
	}
	// Computed outside the lock: others wait only for the same key.
	once := sync.OnceValue(func() any {
		made := compute()
		if sized, ok := made.(Sized); ok && d.grew != nil {
			d.grew(sized.Size())
		}
		return made
	})
	d.memos[key] = once
	return once
}

// Snapshot is what is known of a document. Both nil: not fetched yet, or given up for
// want of space and now fetched again. Both set: the last good version while fetching
// fails.
type Snapshot struct {
	Document *Document
	Err      error
	// Owed: a fetch that the subscriber asked for has not ended; see Feeds.Refresh.
	Owed bool
}
