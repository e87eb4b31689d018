// Package apply writes the ConfigMap or Secret of one Render.
//
// It decides first and acts second. decide is pure: from the target's metadata,
// the Render and what was delivered it says create, update, take over, nothing,
// or refuse with an Error that carries a reason of the Applied condition. Apply
// then does one server-side apply with the field manager of the spoke.
//
// Invariants: only keys of the delivered content are written or removed, keys of
// others survive; data is written, never stringData; a target that is not ours is
// touched only with spec.target.adopt; another controller's never; nothing is
// deleted before its successor is written. Values are read from nowhere: drift is
// told by the managed fields, and no error text holds a value.
//
// The controller of the spoke is the only caller. It decides when to retry.
package apply
