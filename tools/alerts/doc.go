// Package alerts tests the alerts of the charts with Prometheus's own engine. It is a
// module of its own, for Prometheus is large.
package alerts
