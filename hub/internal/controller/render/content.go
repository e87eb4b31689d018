package render

import (
	"context"
	"errors"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/render"
)

// form is what the rendered bytes depend on besides the document: two Renders of
// one form share them.
type form struct {
	format  v1alpha1.Format
	section string
	shape   v1alpha1.Shape
	file    string
}

// result is a rendered form: content, or why there is none.
type result struct {
	content *fleet.Content
	err     error
}

var _ feed.Sized = result{}

// Size of the content in bytes.
func (r result) Size() int {
	if r.content == nil {
		return 0
	}
	return r.content.Size()
}

// render renders the document, once per version and form for the whole fleet.
func (r *Reconciler) render(_ context.Context, j *job) error {
	spec := j.render.Spec
	f := form{format: spec.Format, section: spec.Section, shape: spec.Target.EffectiveShape(), file: spec.Target.File}
	made, ok := j.document.Memo(f, func() any { return r.renderForm(j.document, string(j.key), f) }).(result)
	if !ok {
		return errors.New("memo of a document holds something else than a result")
	}
	j.content = made.content
	return made.err
}

func (r *Reconciler) renderForm(d *feed.Document, key string, f form) result {
	format := f.format
	if format == "" {
		format = d.Format
	}
	data, err := render.Render(
		render.Document{Key: key, Format: format, Text: d.Text, Values: d.Values},
		render.Target{Section: f.section, Shape: f.shape, File: f.file})
	if err != nil {
		return result{err: renderFailed(err)}
	}
	return result{content: &fleet.Content{ID: r.Hasher.ContentID(data), SourceVersion: d.Version, Data: data}}
}
