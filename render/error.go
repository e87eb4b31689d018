package render

import (
	"fmt"
	"strings"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	// maxPaths bounds Error.Paths; the rest are counted in the message.
	maxPaths = 1000
	// maxPathsText bounds the paths in a message, in bytes: a condition's
	// message holds 32,768 and the API server refuses a longer one.
	maxPathsText = 16 << 10
)

// Error is a refusal. Message is for people and holds a place, paths, names and
// sizes, never a value or other text of the document.
type Error struct {
	// Reason is one of the v1alpha1.Reason constants: DocumentInvalid,
	// DocumentTooLarge, ShapeInvalid, KeyCollision, KeyInvalid or TargetInvalid.
	Reason string
	// Message says what is refused and where, starting with the document's key.
	Message string
	// Paths are the places in the document, in its order, at most 1,000: keys
	// joined by dots, [0] for positions, unusual keys quoted. Empty where the
	// refusal is about the document as a whole.
	Paths []string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// refuse makes a refusal that concerns the document as a whole.
func refuse(reason, format string, args ...any) error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// refuseAt makes a refusal that concerns one place: "<path>: <cause>".
func refuseAt(reason string, at path, format string, args ...any) error {
	place := at.String()
	return &Error{Reason: reason, Message: place + ": " + fmt.Sprintf(format, args...), Paths: []string{place}}
}

// invalid refuses a document at one path.
func invalid(at path, format string, args ...any) error {
	return refuseAt(v1alpha1.ReasonDocumentInvalid, at, format, args...)
}

// invalidLine refuses a document at a line, counted from 1.
func invalidLine(line int, format string, args ...any) error {
	return refuse(v1alpha1.ReasonDocumentInvalid, "line %d: %s", line, fmt.Sprintf(format, args...))
}

// invalidByte refuses a document at the byte with that offset.
func invalidByte(text string, offset int, format string, args ...any) error {
	before := text[:min(max(offset, 0), len(text))]
	line := 1 + strings.Count(before, "\n")
	column := len(before) - strings.LastIndexByte(before, '\n')
	return refuse(v1alpha1.ReasonDocumentInvalid, "line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// findings gathers what is wrong at many places, by cause in order of finding.
type findings struct {
	causes  []string
	byCause map[string][]string
	kept    int
	more    int // places beyond maxPaths
}

// add notes that cause holds at a place.
func (f *findings) add(cause string, at path) {
	if f.kept == maxPaths {
		f.more++
		return
	}
	if f.byCause == nil {
		f.byCause = map[string][]string{}
	}
	if _, ok := f.byCause[cause]; !ok {
		f.causes = append(f.causes, cause)
	}
	f.byCause[cause] = append(f.byCause[cause], at.String())
	f.kept++
}

// refusal is nil, or one refusal of everything found: "<what> <cause>: <paths>".
func (f *findings) refusal(reason, what string) error {
	if f.kept == 0 {
		return nil
	}
	refusal := &Error{Reason: reason}
	var text strings.Builder
	text.WriteString(what)
	shown := 0
	for i, cause := range f.causes {
		separator := " " + cause + ": "
		if i > 0 {
			separator = ";" + separator
		}
		for _, place := range f.byCause[cause] {
			refusal.Paths = append(refusal.Paths, place)
			if text.Len() < maxPathsText {
				text.WriteString(separator + place)
				separator = ", "
				shown++
			}
		}
	}
	if left := f.kept - shown + f.more; left > 0 {
		fmt.Fprintf(&text, " and %d more", left)
	}
	refusal.Message = text.String()
	return refusal
}
