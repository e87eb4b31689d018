// Package hub wires a hub together: Run is the diagram. It holds no rule and no
// protocol; each box lives in a package below internal.
//
//	SpokeCluster, classes, Secrets ──cache──┐
//	                                        ▼
//	spoke ──session──► syncserver ──► mirror ──► controller/render ──► policy
//	  ▲                    ▲                        │        │
//	  │                    │                        ▼        ▼
//	  └────── frames ──── fleet ◄──── answers ── render    feed ──► store
package hub
