// Package consul reads documents from Consul's key-value store.
//
// A key is Consul's own, exactly. A version is the key's ModifyIndex. Any server may
// answer a query that waits for a change: it says no more than that something moved,
// and is not relied on when the server lags. Everything else is read from the leader
// with full consistency, so that a version never follows a newer one.
//
// However many documents are fetched and watched, a client has at most 32
// connections, since an agent refuses more than 200 of one client by default.
// Package mux decides which requests are made; this one says what each of them means.
// See docs/adr/0007-consul-watches.md.
//
// Only a 404 that carries Consul's index header counts as absent, or a key without
// an index in a batch that carries Consul's header. Everything
// that is not clearly Consul's answer (an error page, a redirect, an empty or cut
// body, another key) is StoreUnreachable and takes no document away. Nothing of
// an answer's body goes into an error.
//
// The client takes nothing from the environment: no CONSUL_ variable, no proxy.
package consul
