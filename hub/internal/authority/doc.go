// Package authority is the hub's own certificate authority and its shared secrets,
// both kept in Secrets of the hub's namespace so that every replica has the same.
//
// It signs the client certificates of spokes and the hub's server certificate. It
// decides nothing about who may have one: package enroll does, through its Signer
// interface, so that another authority can take this one's place.
package authority
