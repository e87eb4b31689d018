package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

const (
	// className is the class that all Renders use.
	className = "chaos"
	// prefix of all documents.
	prefix = "chaos/"
	// documents is how many there are.
	documents = 12
)

// id names one Render of one spoke.
type id struct{ spoke, namespace, name string }

func (i id) String() string { return i.spoke + "/" + i.namespace + "/" + i.name }

// World is what should be.
type World struct {
	// namespaces of the Renders; the class always serves the first. Those of one seed
	// are its own: the ones of a round before may take a while to go.
	namespaces []string
	// stored is the text of each document; one that is not there is absent.
	stored map[string]string
	// served are the namespaces that the class serves.
	served map[string]bool
	// wanted are the specs of all Renders.
	wanted map[id]v1alpha1.DynamicConfigRenderSpec
	// retained are the Renders that were ever asked to leave their targets: those may
	// be found after a change of name, kind or the end of the Render.
	retained map[id]bool
	// spoiled are the Renders of whose targets somebody else owned a key for a while: it
	// may stay, as any foreign key does, when the document drops it meanwhile.
	spoiled map[id]bool
}

func newWorld(seed uint64) *World {
	w := &World{
		namespaces: []string{fmt.Sprintf("chaos-%x-a", seed), fmt.Sprintf("chaos-%x-b", seed), fmt.Sprintf("chaos-%x-c", seed)},
		stored:     map[string]string{}, served: map[string]bool{}, retained: map[id]bool{},
		wanted: map[id]v1alpha1.DynamicConfigRenderSpec{}, spoiled: map[id]bool{},
	}
	for _, ns := range w.namespaces {
		w.served[ns] = true
	}
	return w
}

// want notes the spec of a Render.
func (w *World) want(i id, spec v1alpha1.DynamicConfigRenderSpec) {
	w.wanted[i] = spec
	if spec.Target.DeletionPolicy == v1alpha1.DeletionRetain {
		w.retained[i] = true
	}
}

// renders in an order that does not move, so that a seed finds the same ones again.
func (w *World) renders() []id {
	return slices.SortedFunc(maps.Keys(w.wanted), func(a, b id) int { return cmp.Compare(a.String(), b.String()) })
}

// verdict is what a Render should say, and what its target should hold where it says
// Rendered.
type verdict struct {
	ready, cause string // reasons; cause is that of the condition that is not True
	data         map[string][]byte
}

// truth judges one Render by what should be.
func (w *World) truth(i id) verdict {
	spec := w.wanted[i]
	if !w.served[i.namespace] {
		return verdict{ready: v1alpha1.ReasonClassNotAllowed}
	}
	text, there := w.stored[spec.Key]
	if !there {
		return verdict{ready: v1alpha1.ReasonRenderFailed, cause: v1alpha1.ReasonDocumentNotFound}
	}
	data, err := render.Render(render.Document{Key: spec.Key, Text: []byte(text)},
		render.Target{Section: spec.Section, Shape: spec.Target.EffectiveShape(), File: spec.Target.File})
	if err != nil {
		return verdict{ready: v1alpha1.ReasonRenderFailed, cause: v1alpha1.ReasonDocumentInvalid}
	}
	return verdict{ready: v1alpha1.ReasonRendered, data: data}
}

func documentKey(n int) string { return fmt.Sprintf("%sdoc-%02d.json", prefix, n) }

// object is a Render as it is created.
func (i id) object(spec v1alpha1.DynamicConfigRenderSpec) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.name}, Spec: spec}
}
