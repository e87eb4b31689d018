// Command promql evaluates the queries of dashboards and rules on what real processes
// serve at /metrics. Its tests evaluate the rules below deploy/alerts on the recorded
// series of deploy/alerts/tests, which are in the format of promtool's unit tests.
//
// It is a module of its own, so that Prometheus's dependencies are not the product's;
// and it takes Prometheus's engine and not promtool, which brings the clients of a
// dozen clouds. See docs/adr/0016-traces-metrics-and-their-tests.md.
package main
