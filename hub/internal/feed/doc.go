// Package feed fetches every document once for the whole fleet.
//
// A [Source] is a class with one credential; a feed is one document of one
// source. However many Renders, in however many clusters, subscribe to a
// document, one goroutine follows it and wakes them when a newer version or
// another error arrives. They then read the [Snapshot] by subscribing again, which
// changes nothing when nothing changed.
//
// A store that can be watched is watched; another, or one that has no room for one
// more watch, is polled at the shortest interval of the subscribers, at a phase of
// its own. A failing document is tried again after its interval at the earliest, and
// ever more rarely, but once when its store comes back. A source's rate, its number of
// requests at once and a store's Retry-After hold for all of its documents together;
// one source never waits for another. They hold for calls, or for the requests of a
// store.Multiplexer, which passes them itself.
//
// A store whose requests fail five times in a row, in ways that are no single
// document's, is down: one request at a time is sent as a probe, one to fifteen
// seconds apart, whatever is due or asked for. Documents that wait for it keep what
// they have and say why; the first answer lets them go.
//
// The requests that wait for their source go in this order: documents about which the
// store said nothing yet, documents that somebody asks for (a Refresh, a subscriber
// that is new or has another interval), documents whose interval is over; within
// each, first come, first served. But no more than four in a row pass before one that
// came earlier: where people ask faster than the rate allows, a fifth of it is left to
// what waited longest. Where documents are due faster than the rate allows, each of
// them has its turn, later than its interval: a thousand documents at ten requests a
// second are fetched every hundred seconds. A document has one request in the queue,
// however many ask.
//
// The last good document is kept while fetching fails. All of them together, with
// what was made of them, are bounded in bytes: those that nobody used for longest are
// given up. Their versions are kept, so they are followed as before and nobody is
// woken without news. A subscriber who asks for one gets a Snapshot without it, has it
// fetched before everything else, and is woken. What is given up and asked for in
// turns costs a request each time: the bound is to be larger than what is used at once.
//
// Nothing is kept of a document that nobody subscribes to, and nothing is carried from
// one revision of a source to the next: what an old credential read is not shown under
// a new one.
//
// The render controller subscribes; [Feeds.Run] owns every goroutine. The package
// decides nothing about access: see package policy.
package feed
