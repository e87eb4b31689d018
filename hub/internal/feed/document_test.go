package feed_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"dynamic-config.rs/fleet/hub/internal/store/memory"
)

func TestDocument_Memo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Put(key, "one")
		f := start(t)
		f.Subscribe(sub(1), watched(s), key, 0)
		f.wakes(sub(1))
		doc := f.Subscribe(sub(1), watched(s), key, 0).Document

		var computed atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if got := doc.Memo("shape", func() any { return computed.Add(1) }); got != int64(1) {
					t.Errorf("got %v", got)
				}
			})
		}
		group.Wait()
		if got := doc.Memo("another", func() any { return "other" }); got != "other" {
			t.Errorf("got %v for another key", got)
		}
		for n := range 1000 {
			if got := doc.Memo(n, func() any { return n }); got != n {
				t.Fatalf("got %v for key %d", got, n)
			}
		}
		s.Put(key, "two")
		f.wakes(sub(1))
		next := f.Subscribe(sub(1), watched(s), key, 0).Document
		if got := next.Memo("shape", func() any { return "of two" }); got != "of two" {
			t.Errorf("got %v for the next version", got)
		}
		f.stop()
	})
}
