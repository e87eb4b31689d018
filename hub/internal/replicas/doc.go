// Package replicas is what the replicas of a hub know of each other: each keeps a
// Lease that says it is alive, and one of them is the leader.
//
// Serving never asks for the leader: every replica renders for the spokes that are
// connected to it. The leader alone does what must have one writer, the status of
// classes and the aggregation of SpokeClusters; it asks Leading before each piece of
// work. Losing the lead ends that work and nothing else, so a hub whose API server is
// away goes on serving (docs/adr/0012).
//
// The hub's wiring runs Presence, Leader and Balancer, which has sessions move off a
// replica that holds more than its share (docs/adr/0018); controller/spokecluster asks
// Watch which sessions died with their replica.
package replicas
