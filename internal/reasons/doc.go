// Package reasons says what the reasons of conditions mean and whose problem each is,
// in the words of docs/reasons.md, and which condition of an object counts. The choice
// goes by typed reasons alone and never by a message's text.
//
// It is pure. The command line and the hub's page both speak through it, so that they
// and the documentation cannot differ.
package reasons
