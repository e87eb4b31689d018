package feed_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

// crammed are a hundred documents of a hundred bytes where there is room for ten.
type crammed struct {
	*fixture

	stored *memory.Store
	source feed.Source
}

const (
	crowd = 100
	room  = 1000
)

func cram(t *testing.T, source func(*memory.Store) feed.Source) crammed {
	t.Helper()
	s := memory.New()
	c := crammed{fixture: startWith(t, room), stored: s, source: source(s)}
	for n := range crowd {
		c.put(n, "one")
		c.look(n)
		pass(time.Second) // each arrives, and is used, before the next
		c.look(n)
		c.wakes(sub(n))
	}
	return c
}

func (c crammed) put(n int, text string) {
	c.stored.Put(policy.Key(fmt.Sprint(n)), text+strings.Repeat(".", 100-len(text)))
}

func (c crammed) look(n int) feed.Snapshot {
	return c.Subscribe(sub(n), c.source, policy.Key(fmt.Sprint(n)), time.Minute)
}

var watchedOrPolled = map[string]func(*memory.Store) feed.Source{"watched": watched, "polled": unwatched}

func TestBudget_WhatWasNotUsedForLongestIsGivenUpInSilence(t *testing.T) {
	t.Parallel()
	for name, source := range watchedOrPolled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := cram(t, source)
				pass(time.Hour)
				if got := c.Stats(); got.Bytes != room || got.Feeds != crowd {
					t.Errorf("%d bytes of %d documents are held, want %d of %d", got.Bytes, got.Feeds, room, crowd)
				}
				for n := range crowd {
					if woken := c.wakes(sub(n)); woken != 0 {
						t.Errorf("document %d: woken %d times though nothing moved", n, woken)
					}
				}
				before := c.Stats()
				for n := crowd - room/100; n < crowd; n++ {
					if got := c.look(n); !strings.HasPrefix(text(got), "one") {
						t.Errorf("document %d, of those used last: %q", n, text(got))
					}
				}
				synctest.Wait()
				if after := c.Stats(); after.Fetches != before.Fetches {
					t.Errorf("%d fetches of what is held", after.Fetches-before.Fetches)
				}
				c.stop()
			})
		})
	}
}

func TestBudget_WhatWasGivenUpIsFetchedWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	for name, source := range watchedOrPolled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := cram(t, source)
				before := c.stored.Fetches("0")
				for range 10 { // asked for again and again until it is there
					if got := c.look(0); got.Document != nil || got.Err != nil {
						t.Fatalf("document %q, error %v; want neither", text(got), got.Err)
					}
				}
				if woken := c.wakes(sub(0)); woken != 1 {
					t.Errorf("woken %d times, want once", woken)
				}
				if got := c.look(0); !strings.HasPrefix(text(got), "one") {
					t.Errorf("document %q", text(got))
				}
				if n := c.stored.Fetches("0") - before; n != 1 {
					t.Errorf("%d fetches, want one", n)
				}
				if got := c.Stats(); got.Bytes != room {
					t.Errorf("%d bytes are held", got.Bytes)
				}
				c.stop()
			})
		})
	}
}

func TestBudget_ANewVersionOfWhatWasGivenUpArrives(t *testing.T) {
	t.Parallel()
	for name, source := range watchedOrPolled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := cram(t, source)
				c.put(0, "two")
				pass(67 * time.Second)
				if woken := c.wakes(sub(0)); woken != 1 {
					t.Errorf("woken %d times, want once", woken)
				}
				if got := c.look(0); !strings.HasPrefix(text(got), "two") {
					t.Errorf("document %q", text(got))
				}
				c.stop()
			})
		})
	}
}

func TestBudget_WhatWasGivenUpIsNextInABusyClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, s, source := busy(t)
		f.stop()
		tight := startWith(t, 3)
		for n := range 1000 {
			tight.Subscribe(sub(n), source, policy.Key(fmt.Sprint(n)), time.Second)
		}
		pass(110 * time.Second)
		synctest.Wait()
		given := 0
		for given = range 1000 { // one that is not held
			if got := tight.Subscribe(sub(given), source, policy.Key(fmt.Sprint(given)), time.Second); got.Document == nil {
				break
			}
		}
		before := s.count()
		pass(time.Second)
		if n := s.since(before, policy.Key(fmt.Sprint(given))); n != 1 {
			t.Errorf("it is request number %d, with a thousand documents due", n)
		}
		tight.stop()
	})
}

// Where its fetch fails nobody hurries, and it comes with the end of the outage.
func TestBudget_WhatWasGivenUpComesAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cram(t, unwatched)
		c.stored.Fail(failing(v1alpha1.ReasonStoreUnreachable))
		pass(5 * time.Minute)
		before := c.Stats().Fetches
		for range 60 {
			for n := range crowd {
				if got := c.look(n); store.ReasonOf(got.Err) != v1alpha1.ReasonStoreUnreachable {
					t.Fatalf("document %d: error %v", n, got.Err)
				}
			}
			pass(time.Second)
		}
		if n := c.Stats().Fetches - before; n > 8 {
			t.Errorf("%d fetches in a minute of outage", n)
		}
		c.stored.Fail(nil)
		pass(30 * time.Second)
		if got := c.look(0); got.Err != nil {
			t.Errorf("error %v", got.Err)
		}
		pass(time.Second)
		if got := c.look(0); !strings.HasPrefix(text(got), "one") {
			t.Errorf("document %q", text(got))
		}
		c.stop()
	})
}

// A store that learns cheaply that a document stayed as it was is asked that way while
// the content is not needed, and for the whole document when it is.
func TestBudget_WhatWasGivenUpIsStillPolled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		polls := &atomic.Int64{}
		c := cram(t, func(s *memory.Store) feed.Source {
			return feed.Source{ID: "class", Open: func() (store.Reader, error) { return cheap{polled{s}, polls}, nil }}
		})
		before, fetches := polls.Load(), c.Stats().Fetches
		pass(time.Hour)
		if polls, all := polls.Load()-before, c.Stats().Fetches-fetches; polls < crowd*50 || uint64(polls) != all {
			t.Errorf("%d of %d requests in an hour are polls", polls, all)
		}
		before, fetches = polls.Load(), c.Stats().Fetches
		c.look(0)
		synctest.Wait()
		if got := c.look(0); !strings.HasPrefix(text(got), "one") || polls.Load() != before || c.Stats().Fetches != fetches+1 {
			t.Errorf("document %q after %d polls", text(got), polls.Load()-before)
		}
		c.stop()
	})
}

// sized is something of so many bytes.
type sized int

func (s sized) Size() int { return int(s) }

func TestBudget_WhatIsMadeOfADocumentCountsAndGoesWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cram(t, watched)
		first, last := c.look(crowd-2), c.look(crowd-1)
		if got := last.Document.Memo("form", func() any { return sized(700) }); got != sized(700) {
			t.Errorf("memo %v", got)
		}
		last.Document.Memo("form", func() any { return sized(9000) }) // made once
		last.Document.Memo("of no size", func() any { return "text" })
		if got := c.Stats(); got.Bytes != room {
			t.Errorf("%d bytes are held, want the bound: 800 of one document, 100 of two", got.Bytes)
		}
		if got := c.look(crowd - 2); got.Document != first.Document {
			t.Error("one that was used lately is given up")
		}
		last.Document.Memo("another", func() any { return sized(5000) })
		if got := c.Stats(); got.Bytes > room {
			t.Errorf("%d bytes are held", got.Bytes)
		}
		// Who holds a document that was given up goes on with it, and nothing counts.
		first.Document.Memo("late", func() any { return sized(300) })
		last.Document.Memo("late", func() any { return sized(300) })
		if got := c.Stats(); got.Bytes > room {
			t.Errorf("%d bytes are held", got.Bytes)
		}
		c.stop()
	})
}

func TestBudget_ADocumentLargerThanTheBoundIsHeldAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := cram(t, watched)
		c.stored.PutDocument("large", store.Document{Values: map[string][]byte{"key": make([]byte, 2*room)}})
		c.Subscribe(sub(crowd), c.source, "large", time.Minute)
		synctest.Wait()
		if got := c.Subscribe(sub(crowd), c.source, "large", time.Minute); got.Document == nil {
			t.Error("it is not held")
		}
		if got := c.Stats(); got.Bytes != 2*room+3 {
			t.Errorf("%d bytes are held, want it alone", got.Bytes)
		}
		c.stop()
	})
}

// minted is a store that answers a document of its own to each fetch, whose watches
// end with the test.
type minted struct {
	mu      sync.Mutex
	answers []weak.Pointer[store.Document]
}

func (s *minted) Fetch(context.Context, policy.Key) (*store.Document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	doc := &store.Document{Version: "1", Text: make([]byte, 100)}
	s.answers = append(s.answers, weak.Make(doc))
	return doc, nil
}

func (*minted) Watch(ctx context.Context, _ policy.Key, _ string) (*store.Document, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*minted) Close() error { return nil }

func TestBudget_WhatIsGivenUpIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &minted{}
		f := startWith(t, room)
		for n := range crowd {
			f.Subscribe(sub(n), feed.Source{ID: "class", Open: func() (store.Reader, error) { return s, nil }}, policy.Key(fmt.Sprint(n)), time.Hour)
		}
		pass(time.Minute)
		synctest.Wait()
		runtime.GC()
		held := 0
		for _, answer := range s.answers {
			if answer.Value() != nil {
				held++
			}
		}
		if held != room/100 || len(s.answers) != crowd {
			t.Errorf("%d of %d documents are in memory, want %d of %d", held, len(s.answers), room/100, crowd)
		}
		f.stop()
	})
}
