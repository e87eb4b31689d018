package feed

import (
	"container/list"

	"dynamic-config.rs/fleet/hub/internal/store"
)

// DefaultMaxBytes is Config.MaxBytes when that is zero.
const DefaultMaxBytes = 512 << 20

// Sized is what a memo may be, so that its bytes count.
type Sized interface {
	// Size in bytes.
	Size() int
}

// budget bounds the bytes of all documents and of what was made of them. Where they
// are more, those that were not used for longest are given up: their feeds go on
// with the version alone. It is guarded by Feeds.mu.
type budget struct {
	most, held int64
	recent     list.List // of *feed that hold a document; the last that was used is in front
}

// hold counts a feed's document, in place of the one before, as just used.
func (b *budget) hold(d *feed, size int) {
	b.drop(d)
	d.listed = b.recent.PushFront(d)
	b.grow(d, size)
}

// use says that a feed's document was used.
func (b *budget) use(d *feed) {
	b.recent.MoveToFront(d.listed)
}

// grow counts more bytes of a feed, and gives up what is too much. What was used last
// stays, whatever its size.
func (b *budget) grow(d *feed, size int) {
	d.size += int64(size)
	b.held += int64(size)
	for b.held > b.most && b.recent.Len() > 1 {
		if oldest, ok := b.recent.Back().Value.(*feed); ok {
			oldest.giveUp()
		}
	}
}

// drop counts a feed's document no more.
func (b *budget) drop(d *feed) {
	if d.listed == nil {
		return
	}
	b.recent.Remove(d.listed)
	b.held -= d.size
	d.listed, d.size = nil, 0
}

// take keeps a version that is new, or whose content was given up and is asked for;
// false when it is neither. Called with owner.mu held.
func (d *feed) take(doc *store.Document) bool {
	isNew := d.last == nil || d.last.Version != doc.Version
	if !isNew && (!d.missed || doc == d.last) {
		return false
	}
	kept := &Document{Document: doc}
	kept.grew = func(size int) { d.grew(kept, size) }
	d.doc, d.last, d.missed = kept, doc, false
	d.owner.budget.hold(d, sizeOf(doc))
	return true
}

// grew counts what was made of a document, while it is held.
func (d *feed) grew(doc *Document, size int) {
	d.owner.mu.Lock()
	defer d.owner.mu.Unlock()
	if d.doc == doc && d.listed != nil {
		d.owner.budget.grow(d, size)
	}
}

// giveUp keeps of a document only which version it is; called with owner.mu held.
func (d *feed) giveUp() {
	d.owner.budget.drop(d)
	d.doc, d.last = nil, bare(d.last)
}

// look answers what is known, for somebody who needs the document: what was given up
// is fetched again, before everything else. While that fails there is no hurry.
// Called with owner.mu held.
func (d *feed) look() Snapshot {
	switch {
	case d.doc != nil:
		d.owner.budget.use(d)
	case d.last != nil && !d.missed:
		d.missed = true
		if d.err == nil {
			d.want()
		}
	}
	return Snapshot{Document: d.doc, Err: d.err}
}

// bare is a document without its content.
func bare(doc *store.Document) *store.Document {
	return &store.Document{Version: doc.Version, Format: doc.Format, Secret: doc.Secret}
}

func sizeOf(doc *store.Document) int {
	size := len(doc.Text)
	for name, value := range doc.Values {
		size += len(name) + len(value)
	}
	return size
}
