// Package docs embeds pages that a program shows as well as people read, so that the
// two cannot differ.
package docs

import _ "embed" // the directive below

// Reasons is reasons.md: a heading for each reason of a condition, a session or an
// enrolment, and below it what failed, whose problem it is and what to do.
//
//go:embed reasons.md
var Reasons string
