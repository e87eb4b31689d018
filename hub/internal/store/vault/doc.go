// Package vault reads documents from the KV secrets engines, versions 1 and 2, of
// Vault. OpenBao has the same interface and is read the same way.
//
// A key is an engine's path and a secret's, as the vault command takes it:
// secret/postgres. Where the engine ends, and its version, is asked of Vault once
// for each engine in ten minutes, unless the class states a version. What Vault says is
// no KV engine is never read: a read of another engine may make credentials. Where a
// version is stated Vault is not asked, so such a read may happen: an answer that holds
// a lease is no document, its lease is revoked where the token may, and its key is not
// read again for an hour.
//
// The document is the secret's map as JSON, byte for byte as Vault gave it. Every
// document is secret. A version of KV 2 is its number and time; KV 1 has none, so
// it is a keyed hash under a key that never leaves the client, which says nothing
// of the content.
//
// [Client.Poll] asks for the metadata of a document of KV 2 and reads the document
// only when it moved. Where the metadata is forbidden the document is read instead.
//
// The client is logged in lazily: at the first request, and again, or renewed, by
// the request that finds two thirds of the token's time gone. There is no
// goroutine, so a token is kept alive by use: a class's documents must be polled
// more often than a third of its token's time, or a new login is made. However many
// requests wait, one of them logs in for all. A 403 is answered by a new login once
// a minute at most, because a role's policies hold from login on. A token that the
// client logged in for is revoked when it is replaced or the client closes; a token
// that was given is renewed and never revoked.
//
// Only Vault's own JSON counts as an answer. Everything else (an error page, a
// redirect, an empty or cut body) is StoreUnreachable and takes no document away.
// Nothing of an answer goes into an error.
//
// The client takes nothing from the environment: no VAULT_ variable, no proxy.
package vault
