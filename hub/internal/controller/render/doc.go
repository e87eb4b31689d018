// Package render reconciles one Render of one spoke: it decides whether the Render
// may have its document, joins the document's feed, renders, and hands the answer to
// package fleet.
//
// It wakes on a change of the Render, its document, its class, its class's
// credential, or its SpokeCluster. It writes nothing to any cluster and keeps
// nothing about a Render but its subscription.
package render
