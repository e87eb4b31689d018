// Package telemetry sets up what a process says about itself: structured logs and the
// server of its metrics.
//
// The hub and the spoke call it once in main. Logs go through log/slog, as JSON
// or as text, and reach Kubernetes libraries as a logr.Logger. The level can be
// changed while the process runs. There are two levels in use: info says that a
// state changed, debug says in detail what was done. No value of a document or
// credential is ever passed to a logger.
package telemetry
