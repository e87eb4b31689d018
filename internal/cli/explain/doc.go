// Package explain says in words why an object is as it is. The words are those of
// docs/reasons.md, one paragraph a reason, so that command and page cannot differ; the
// choice goes by typed reasons alone and never by a message's text.
//
// It is pure: conditions in, text out. Messages of conditions come from a cluster that
// another team may run, so what is shown of them is escaped for terminals.
package explain
