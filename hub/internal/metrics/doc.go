// Package metrics holds the hub's metrics that are more than a number somebody has
// already: what is counted as it happens, and what is read of the hub's objects when
// it is asked for. Their names are API: docs/metrics.md.
//
// Labels are names of platform objects (classes, SpokeClusters), reasons and codes:
// never a Render, a key or anything else that tenants make up. A series ends with its
// object.
package metrics
