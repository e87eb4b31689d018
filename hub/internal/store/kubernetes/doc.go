// Package kubernetes reads documents from the ConfigMaps and Secrets of one
// namespace of the hub's own cluster.
//
// A key is configmaps/NAME or secrets/NAME for an object read whole, a flat map of
// its data, or with /DATA-KEY behind it for one data key as text, whose extension
// says the format. Documents of Secrets are secret. A version is the object's
// resourceVersion, so a change anywhere in an object is a new version of each of
// its data keys.
//
// Reads come out of an informer's cache, restricted to the namespace; one for
// ConfigMaps and one for Secrets, each started by the first key that needs it, so
// that the hub needs no permission it does not use. While the API server refuses
// or fails to list or watch, reads fail too, although older objects are cached: a
// permission that was withdrawn shows.
package kubernetes
