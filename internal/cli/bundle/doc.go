// Package bundle makes the files of a support bundle, which leave the organisation that
// runs the fleet.
//
// What goes in is chosen, not what stays out: each kind of object is copied field by
// field into a new one. No data of a Secret is read for it, and of a ConfigMap only the
// names and lengths of its keys go in. There is no hash of any value: a short value is
// guessed from its hash. Identities of content are those of the hub, which are keyed.
package bundle
