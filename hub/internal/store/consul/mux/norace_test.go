//go:build !race

package mux

// manyKeys is the number that the store is made for.
const manyKeys = 10_000
