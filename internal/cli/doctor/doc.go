// Package doctor checks an installation: the two clusters and their definitions, hub
// and agent, certificates, clocks, stores, the caller's rights, and what is not ready.
//
// Each check looks at one thing, with the rights of the person who asks, and says OK,
// WARN or FAIL with a hint. FAIL: something of the installation does not work. WARN:
// somebody should look, or the check could not be made. It changes nothing.
package doctor
