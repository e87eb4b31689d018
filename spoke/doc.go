// Package spoke is the agent of a workload cluster: the wiring of a controller
// that keeps the cluster's Renders and a client that holds the session with the
// hub.
//
// What happens where:
//
//	DynamicConfigRender --> controller --spec--> syncclient --> hub
//	target and status   <-- controller <-answer- syncclient <-- hub
//
// The agent holds no store credential. It caches Renders whole and targets as
// metadata, and keeps its own key and certificate in a Secret of its namespace.
// Losing the hub changes nothing in the cluster.
package spoke
