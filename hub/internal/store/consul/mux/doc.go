// Package mux serves any number of fetches and watches of documents with few
// requests to Consul. It decides which requests are made; package consul knows what
// each of them means.
//
// Fetches that wait at the same time are read in batches. The watched keys are
// split into at most maxGroups groups by common prefix, each with one blocking query
// under way ([split] is pure). The query is about the key of a group of one, and about
// what is below its prefix for a larger one. Its answer only says that something
// moved, and the group's keys are read again in batches; a large group first asks which
// of its parts moved.
//
// What must hold, so that no change is missed: every key of a group was read at the
// index that the group's query waits from, or after it, or is about to be read. So a
// server that lags may answer a query late, but nothing it holds is ever taken for a
// document. What Consul does not tell a query is found by reading all of a group once
// in a while.
//
// Each request passes the class's gate with a priority of its own: a read with that of
// the most urgent key that it takes, also of one that comes while it waits; a query that
// blocks is periodic.
//
// The [Mux] starts one goroutine at its first call, which owns all others; Close
// ends it.
package mux
