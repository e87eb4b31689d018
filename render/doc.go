// Package render turns one document from a store into the data of one
// ConfigMap or Secret: bytes, an input format and a target in; data keys with
// their values, or a typed refusal, out. Render is the whole of it.
//
// A reader per input format (JSON, YAML, TOML, INI, properties) makes one
// document model: tables sorted by the bytes of their keys, integers of any
// size, floats, strings, booleans, null and arrays. A writer per file extension,
// or one of the two entry shapes, writes it back. Same input, same bytes, always.
//
// The package is pure: no I/O, no clock, no Kubernetes client. The hub calls it
// for every document it serves, and the command line for its dry run. Input is
// untrusted: depth, expansion and output are bounded before memory is spent, and
// nothing panics.
//
// A refusal is an *Error. It names a reason, a place and paths, and never a
// value or other text of the document; no text of a parser library's error gets
// out, because those quote what they read. The writers are the package's own:
// the library ones neither stop at a bound nor quote for the readers of both
// YAML versions.
package render
