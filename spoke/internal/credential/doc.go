// Package credential holds the agent's key, its client certificate and the roots
// it accepts of a hub, and keeps them in a Secret of the agent's own namespace.
//
// The key is made here and never leaves the cluster: the hub gets a certificate
// request. A key is used for one certificate; renewal makes a new one.
package credential
