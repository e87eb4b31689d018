// Package cli is the command line, dynconf, a file a command. Each constructor returns
// one cobra command that reads objects, hands them to a pure package below this one
// (explain, tree, bundle, enrol) and prints what comes back. Package doctor holds the
// checks, package kube the way to the two clusters.
//
// Data goes to stdout, words to stderr. An error is one line with a hint. A command
// ends with 0, or with 1 after an error; diff and doctor document further codes.
//
// It never shows a value of a document, save that which a person hands to render.
package cli
