// Package kube reaches the two clusters that a command talks to: the workload cluster
// with the Renders and their targets, and the hub cluster with the classes and
// SpokeClusters. They may be one.
//
// Flags say which; a command connects to a side only when it needs it. Every request is
// made with the rights of the person at the keyboard.
package kube
