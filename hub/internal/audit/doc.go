// Package audit writes who was given or refused what, one JSON line each: enrolments,
// ends of sessions, decisions about Renders, logins at the fleet page, and changes of the
// hub's root.
//
// A decision is written when it differs from the Render's last one, not at every look.
// A line holds names, keys, versions, verdicts and reasons; it has no field for a
// document's text, a credential or a message. Names and keys are chosen by tenants and
// by strangers, so they are cut to a length and to printable characters.
//
// Lines are bounded in rate, for each cluster apart and refusals apart from the rest,
// so that nobody fills a disk or hides among others' lines. What was dropped is counted
// and the count is written. A nil Log writes nothing.
package audit
