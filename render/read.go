package render

import (
	"iter"
	"strings"
	"unicode/utf8"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// readers make a document of valid UTF-8 without BOM that is not only blanks.
var readers = map[v1alpha1.Format]func(text string) (table, error){
	v1alpha1.FormatJSON:       readJSON,
	v1alpha1.FormatYAML:       readYAML,
	v1alpha1.FormatTOML:       readTOML,
	v1alpha1.FormatINI:        readINI,
	v1alpha1.FormatProperties: readProperties,
}

// writers write a document as a file, by the file's extension.
var writers = map[string]func(out *output, doc table) error{
	"json":       writeJSON,
	"yaml":       writeYAML,
	"yml":        writeYAML,
	"toml":       writeTOML,
	"ini":        writeINI,
	"properties": writeProperties,
}

// read makes the document of what a store returned.
func read(doc Document) (table, error) {
	if doc.Values != nil {
		return flat(doc.Values)
	}
	reader, ok := readers[formatOf(doc)]
	if !ok {
		return nil, refuse(v1alpha1.ReasonDocumentInvalid,
			"the key has none of the extensions json, yaml, yml, toml, ini, properties: "+
				"set spec.format to json, yaml, toml, ini or properties")
	}
	if len(doc.Text) > maxText {
		return nil, textTooLarge(len(doc.Text))
	}
	text := strings.TrimPrefix(string(doc.Text), "\uFEFF")
	if !utf8.ValidString(text) {
		return nil, invalidByte(text, firstInvalid(text), "the text is not UTF-8")
	}
	if strings.TrimSpace(text) == "" {
		return table{}, nil
	}
	return reader(text)
}

func textTooLarge(size int) error {
	return refuse(v1alpha1.ReasonDocumentTooLarge, "the document has %d bytes, %d are allowed", size, maxText)
}

// formatOf is the stated format, or the one of the key's extension.
func formatOf(doc Document) v1alpha1.Format {
	if doc.Format != "" {
		return doc.Format
	}
	name := doc.Key[strings.LastIndexByte(doc.Key, '/')+1:]
	format := v1alpha1.Format(strings.ToLower(extension(name)))
	if format == "yml" {
		return v1alpha1.FormatYAML
	}
	return format
}

// firstInvalid is the offset of the first byte that is not UTF-8.
func firstInvalid(text string) int {
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// notTable refuses a document whose root is something else.
func notTable() error {
	return refuse(v1alpha1.ReasonDocumentInvalid, "the document is not a table of keys and values")
}

// tooDeep refuses a place below the last level.
func tooDeep(at path) error {
	return invalid(at, "the document has more than %d levels", maxDepth)
}

// lines yields the lines of a text with their numbers; \n, \r\n and \r end one.
func lines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for number := 1; text != ""; number++ {
			end := strings.IndexAny(text, "\r\n")
			if end < 0 {
				yield(number, text)
				return
			}
			if !yield(number, text[:end]) {
				return
			}
			if strings.HasPrefix(text[end:], "\r\n") {
				end++
			}
			text = text[end+1:]
		}
	}
}

// knownCause picks the fixed sentence of a parser library that its error ends
// in. Only sentences of ours get out: the rest of the error may quote the text.
func knownCause(message string, causes []string, other string) string {
	for _, cause := range causes {
		if strings.HasSuffix(message, cause) {
			return cause
		}
	}
	return other
}

// guarded runs a parser library and turns its panics into a failure.
func guarded(parse func() error) (failed bool, err error) {
	defer func() {
		if recover() != nil {
			failed = true
		}
	}()
	return false, parse()
}
