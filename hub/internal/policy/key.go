package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// MaxKeyLength is the length of the longest key, in characters: what the
// DynamicConfigRender's schema allows in spec.key.
const MaxKeyLength = 1024

// Key is a document's key in its store, in canonical form: segments joined by
// "/", none of them empty. Only [CanonicalKey] makes one.
type Key string

// Segments are the parts of the key between the slashes.
func (k Key) Segments() []string {
	return strings.Split(string(k), "/")
}

// KeyFault is what is wrong with a key.
type KeyFault string

// The faults of a key.
const (
	FaultEmpty        KeyFault = "the key is empty"
	FaultTooLong      KeyFault = "the key is longer than 1024 characters"
	FaultEmptySegment KeyFault = "empty segment"
	FaultDotSegment   KeyFault = `segment "." or ".."`
	FaultControl      KeyFault = "control character"
	FaultEncoding     KeyFault = "invalid UTF-8"
	FaultReserved     KeyFault = `one of ? # % \`
)

// KeyError says that a key has no canonical form.
type KeyError struct {
	// Key as it was given.
	Key string
	// Fault is what is wrong with it.
	Fault KeyFault
	// Position of the fault, in bytes from the start of Key.
	Position int
}

// Error names the fault, its position and the key. A key is given by a tenant
// and no secret, so it is quoted, at most its first 128 bytes.
func (e *KeyError) Error() string {
	const quoted = 128
	shown := e.Key
	if len(shown) > quoted {
		shown = shown[:quoted]
	}
	return fmt.Sprintf("key %q: %s at byte %d", shown, e.Fault, e.Position)
}

// Reason is the reason that a condition shows for the error.
func (*KeyError) Reason() string {
	return v1alpha1.ReasonKeyInvalid
}

// CanonicalKey gives a key its one form: a single leading slash is dropped.
// Refused with a [*KeyError] are empty, "." and ".." segments, control
// characters, invalid UTF-8, the characters ? # % \ and a key that is empty or
// longer than [MaxKeyLength]. Nothing is unescaped, cleaned or folded.
func CanonicalKey(raw string) (Key, error) {
	if len(raw) > MaxKeyLength && utf8.RuneCountInString(raw) > MaxKeyLength {
		return "", &KeyError{Key: raw, Fault: FaultTooLong}
	}
	key := strings.TrimPrefix(raw, "/")
	dropped := len(raw) - len(key)
	if key == "" {
		return "", &KeyError{Key: raw, Fault: FaultEmpty, Position: dropped}
	}
	if fault, at := badCharacter(key); fault != "" {
		return "", &KeyError{Key: raw, Fault: fault, Position: dropped + at}
	}
	if fault, at := badSegment(key); fault != "" {
		return "", &KeyError{Key: raw, Fault: fault, Position: dropped + at}
	}
	return Key(key), nil
}

// badCharacter answers the first character that no key may hold, and where.
func badCharacter(key string) (KeyFault, int) {
	for at := 0; at < len(key); {
		char, size := utf8.DecodeRuneInString(key[at:])
		switch {
		case char == utf8.RuneError && size == 1:
			return FaultEncoding, at
		case unicode.IsControl(char):
			return FaultControl, at
		case strings.ContainsRune(`?#%\`, char):
			return FaultReserved, at
		}
		at += size
	}
	return "", 0
}

// badSegment answers the first segment that no key may hold, and where.
func badSegment(key string) (KeyFault, int) {
	at := 0
	for segment := range strings.SplitSeq(key, "/") {
		switch segment {
		case "":
			return FaultEmptySegment, at
		case ".", "..":
			return FaultDotSegment, at
		}
		at += len(segment) + len("/")
	}
	return "", 0
}
