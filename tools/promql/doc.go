// Command promql evaluates the queries of dashboards and rules on what real processes
// serve at /metrics, which promtool cannot. Its tests see to it that promtool's, in
// deploy/alerts/tests, have each alert fire, and that each alert says what to do.
//
// It is a module of its own, so that Prometheus's dependencies are not the product's. Its
// go.mod pins promtool too: the Makefile builds it without the discovery of targets,
// which brings the clients of a dozen clouds and is nothing to rules. See
// docs/adr/0020-the-dockerfile-and-the-alerts-by-their-own-tools.md.
package main
