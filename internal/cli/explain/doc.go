// Package explain says in words why an object is as it is. What a reason means and
// which condition counts is package reasons'.
//
// It is pure: conditions in, text out. Messages of conditions come from a cluster that
// another team may run, so what is shown of them is escaped for terminals.
package explain
