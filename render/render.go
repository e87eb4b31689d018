package render

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

const (
	// maxText is how many bytes of input a document may have.
	maxText = 4 << 20
	// maxRendered is how many bytes keys and values may have together; the API
	// server stops at 1 MiB.
	maxRendered = 1_000_000
	// outputStop is where a writer gives up counting: one long key repeated for
	// each leaf would otherwise turn 4 MiB of input into terabytes.
	outputStop = 16 << 20
)

// Document is what a store returned for one key.
type Document struct {
	// Key is the canonical store key: it names the document in refusals, and its
	// extension picks the reader where Format is empty.
	Key string
	// Format is spec.format if stated, else what the store decides; empty to go
	// by Key's extension.
	Format v1alpha1.Format
	// Text is the document's text; unused where Values is set.
	Text []byte
	// Values is a Kubernetes object read whole, a flat map of strings whose bytes
	// may be binary; nil for any other document.
	Values map[string][]byte
}

// Target is how the document becomes data.
type Target struct {
	// Section is the dotted path of the table that is taken; empty for all of it.
	Section string
	// Shape is file, where empty, entries or envEntries.
	Shape v1alpha1.Shape
	// File is the data key of shape file; its extension picks the writer.
	File string
}

// Render returns the data keys and values of the ConfigMap or Secret. Every
// error is an *Error; nothing is returned beside one. The result shares no
// memory with the document.
func Render(doc Document, target Target) (map[string][]byte, error) {
	data, err := render(doc, target)
	if err == nil {
		return data, nil
	}
	var refusal *Error
	if !errors.As(err, &refusal) || doc.Key == "" {
		return nil, err
	}
	return nil, &Error{refusal.Reason, doc.Key + ": " + refusal.Message, refusal.Paths}
}

func render(doc Document, target Target) (map[string][]byte, error) {
	write, err := shapeOf(target)
	if err != nil {
		return nil, err
	}
	root, err := read(doc)
	if err != nil {
		return nil, err
	}
	part, err := section(root.without("$schema"), target.Section)
	if err != nil {
		return nil, err
	}
	data, err := write(part)
	if err != nil {
		return nil, err
	}
	size := 0
	for name, value := range data {
		size += len(name) + len(value)
	}
	if size > maxRendered {
		return nil, tooLarge(size)
	}
	return data, nil
}

func tooLarge(size int) error {
	atLeast := ""
	if size > outputStop {
		size, atLeast = outputStop, "more than "
	}
	return refuse(v1alpha1.ReasonDocumentTooLarge,
		"keys and values would have %s%d bytes, %d are allowed", atLeast, size, maxRendered)
}

// shapeOf picks what makes data of a document, and checks the target.
func shapeOf(target Target) (func(table) (map[string][]byte, error), error) {
	switch target.Shape {
	case v1alpha1.ShapeEntries:
		return entries, nil
	case v1alpha1.ShapeEnvEntries:
		return envEntries, nil
	case v1alpha1.ShapeFile, "":
		return fileShape(target.File)
	default:
		return nil, refuse(v1alpha1.ReasonTargetInvalid, "target.shape is none of file, entries, envEntries")
	}
}

// fileShape picks the writer of a file by its extension.
func fileShape(file string) (func(table) (map[string][]byte, error), error) {
	if file == "" {
		return nil, refuse(v1alpha1.ReasonTargetInvalid, "shape file needs target.file")
	}
	if !validKey(file) {
		return nil, refuse(v1alpha1.ReasonTargetInvalid, "target.file %q is no valid data key", file)
	}
	write, ok := writers[extension(file)]
	if !ok {
		return nil, refuse(v1alpha1.ReasonTargetInvalid,
			"target.file %q has none of the extensions json, yaml, yml, toml, ini, properties", file)
	}
	return func(doc table) (map[string][]byte, error) {
		if err := checkText(doc); err != nil {
			return nil, err
		}
		out := &output{}
		if err := write(out, doc); err != nil {
			return nil, err
		}
		if out.full() {
			return nil, tooLarge(len(out.buf))
		}
		return map[string][]byte{file: out.buf}, nil
	}, nil
}

// extension is what follows the last dot of a name; a dotfile has none.
func extension(name string) string {
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		return name[i+1:]
	}
	return ""
}

// section selects the table at a dotted path.
func section(doc table, dotted string) (table, error) {
	if dotted == "" {
		return doc, nil
	}
	for name := range strings.SplitSeq(dotted, ".") {
		value, ok := doc.find(name)
		if !ok {
			return nil, refuse(v1alpha1.ReasonDocumentInvalid, "spec.section %q is not in the document", dotted)
		}
		if doc, ok = value.(table); !ok {
			return nil, refuse(v1alpha1.ReasonDocumentInvalid, "spec.section %q is not a table", dotted)
		}
	}
	return doc, nil
}

// checkText refuses the binary values a Kubernetes object may have: no text
// file can hold them.
func checkText(doc table) error {
	var found findings
	doc.walk(func(at path, value any) {
		text, _ := value.(string)
		if !utf8.ValidString(text) || !utf8.ValidString(at[len(at)-1].key) {
			found.add("a binary value", at)
		}
	})
	return found.refusal(v1alpha1.ReasonShapeInvalid, "a file cannot hold")
}

// output collects a file. Writers look at full wherever they loop.
type output struct{ buf []byte }

// full tells that the text is far too large already.
func (o *output) full() bool { return len(o.buf) > outputStop }

// add appends texts.
func (o *output) add(texts ...string) {
	for _, text := range texts {
		o.buf = append(o.buf, text...)
	}
}

// flat is the document of a Kubernetes object read whole.
func flat(values map[string][]byte) (table, error) {
	doc, size := make(table, 0, len(values)), 0
	for key, value := range values {
		doc, size = append(doc, member{key, string(value)}), size+len(key)+len(value)
	}
	if size > maxText {
		return nil, textTooLarge(size)
	}
	slices.SortFunc(doc, compareKeys)
	return doc, nil
}
