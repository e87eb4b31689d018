//go:build race

package mux

// manyKeys is what the race detector stands: with 10,000 goroutines that synchronise
// all the time its own bookkeeping runs over (a CHECK in tsan_rtl.cpp ends the test).
const manyKeys = 2_000
