// Package store says what a store of documents is to the hub: a [Reader] that
// fetches one document by its canonical key, a [Poller] where asking whether it
// moved is cheaper than fetching it, and a [Watcher] where the store can tell of
// changes itself. The stores are in the packages below it; storetest
// holds the suite that all of them pass.
//
// Every failure is an [*Error] with a reason of the Fetched condition, so that
// nobody ever searches a text. No text of an error holds a value, a token, an
// endpoint's user info or anything a store's answer said.
//
// "Absent" is only ever said of a key that the store itself says is absent: any
// doubtful answer is a failure, and a failure never takes a document away.
//
// Package feed calls the stores; it adds rates, retries and fan-out. A store
// keeps to one request a call where nothing moved and no login is due, or is a
// [Multiplexer] and asks the class's [Gate] before each request.
package store
