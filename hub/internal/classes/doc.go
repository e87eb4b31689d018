// Package classes reads the two kinds of class as one, and makes a feed's source of
// a class: its store opened with its credential.
//
// Finding a class and using its credential are two steps on purpose: what a
// requester may read is decided between them.
//
// Credential Secrets are watched as metadata and read live when their version
// moved, so that the hub keeps no copy of Secrets that are no credentials. An index
// says which classes name a Secret: most Secrets of a cluster are no class's, and each
// has its events.
package classes
