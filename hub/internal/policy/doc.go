// Package policy decides who may read which document with which class.
//
// It is pure: everything it needs comes in as arguments, nothing is read,
// logged or remembered. [CanonicalKey] gives a key the one form that policy,
// cache and store request share, so that no other spelling of a key leads
// around a pattern. [Evaluate] walks one chain of rules and answers the first
// that refuses; [SecretTarget] adds the rule that can only be checked once the
// document is known.
//
// Whatever is unclear refuses: an unknown kind of class, an invalid selector or
// pattern, an empty list. A refusal names the class and what the requester
// itself asked for, never what would have been allowed.
//
// The render controller calls it at every render, before any cache.
package policy
