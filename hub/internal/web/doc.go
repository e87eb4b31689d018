// Package web is the fleet page: what a hub replica knows of its fleet, for people with
// a browser. It is read-only, off unless an address is configured, and works without
// JavaScript.
//
// Everything on a page comes from what the hub holds anyway: the objects of its cache,
// the outbox of each session (package fleet) and the mirrors of Renders (package
// mirror). A Reader gathers that into a State; pure functions make a view of it (a
// file a page); a template writes the view. No store and no feed is in reach, so no
// value can be shown.
//
// Nobody sees a page without a token that the API server vouches for (TokenReview),
// and whose user may get spokeclusters/renders in dynamic-config.rs
// (SubjectAccessReview). See docs/fleet-page.md and docs/adr/0017.
package web
