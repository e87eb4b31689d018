// Package authority is the hub's own certificate authority and its shared secrets,
// both kept in Secrets of the hub's namespace so that every replica has the same.
//
// It signs the client certificates of spokes and the hub's server certificate. It
// decides nothing about who may have one: package enroll does, through its Signer
// interface, so that another authority can take this one's place.
//
// An Authority is what one reading of the CA Secret says and never changes. A Live
// reads the Secret again and again, on every replica, and is what the rest of the hub
// holds. Where the Secret is the hub's own, a Live also moves its root on:
//
//	distributing  next.crt is trusted and told to spokes; tls.crt still signs
//	signing       after a time of grace it is tls.crt, followed by its own key
//	              certified by the root before: a spoke that knows only that one
//	              still verifies the hub
//	retiring      the root before stays in ca.crt until its end, or until a person
//	              asks to retire it
//
// Replicas need no leader for it: a write that another one forestalled is not made.
package authority
