// Package stage sets up the whole product on real control planes: one hub cluster,
// some spoke clusters, and hub and agents as processes of their own with the rights
// of their own ServiceAccounts and no more. The system tests and the demo play on it.
//
// It installs what deploy holds, and enrols a cluster as an administrator would. It
// asserts nothing.
package stage
