// Package consul reads documents from Consul's key-value store.
//
// A key is Consul's own, exactly. A version is the key's ModifyIndex. Reads are
// made with Consul's default consistency: a stale read could answer an older
// version after a newer one, and package feed asks once a document for the whole
// fleet, so there is little load to spread.
//
// A watch is one blocking query for each key. An agent refuses more than 200
// connections of one client by default, so a client holds at most 64 watches and has
// no room for more: package feed polls those documents, at their interval and the
// class's rate, so a change of one is seen within the interval and not at once. The
// index of a blocking query starts anew when it goes back, and a query that answers
// without news is repeated once a second at most.
//
// Only a 404 that carries Consul's index header counts as absent. Everything
// that is not clearly Consul's answer (an error page, a redirect, an empty or cut
// body, another key) is StoreUnreachable and takes no document away. Nothing of
// an answer's body goes into an error.
//
// The client takes nothing from the environment: no CONSUL_ variable, no proxy.
package consul
