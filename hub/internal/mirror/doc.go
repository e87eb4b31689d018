// Package mirror makes every connected spoke a cluster of multicluster-runtime: its
// inventory of Renders is the cache of a virtual cluster, so that an ordinary
// multicluster controller reconciles them.
//
// Package syncserver writes the mirrors (Replace, Upsert, Remove); the render
// controller reads them. One virtual cluster lives as long as its SpokeCluster:
// sessions come and go behind it, and a new inventory is compared with the old one
// here, so that what vanished meanwhile is seen as deleted (docs/adr/0003). What a
// spoke said that is with another replica by now is emptied after a while.
//
// A virtual cluster can only be read. Whatever would write answers
// MethodNotSupported: answers go through package fleet.
package mirror
