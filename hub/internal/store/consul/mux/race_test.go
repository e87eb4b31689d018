//go:build race

package mux

import "runtime"

// manyKeys under the race detector, which makes everything an order slower.
const manyKeys = 2_000

// One processor: with two, the race detector's own run time (Go 1.26.8) ends these
// bubbles of many short-lived goroutines and timers with a CHECK in tsan_rtl.cpp or a
// segmentation fault in synctest.Run. What it finds does not depend on it: it reasons
// about what happens before what, not about what ran at the same time.
func init() { runtime.GOMAXPROCS(1) }
