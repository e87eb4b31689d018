package cli

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// source is one kind of object at one place.
type source struct {
	conn    *kube.Conn
	place   string // empty where there is one alone
	list    client.ObjectList
	options []client.ListOption
}

// found are the objects of a source.
type found struct {
	place   string
	objects []client.Object
}

// list lists every source.
func list(ctx context.Context, sources []source, names []string) ([]found, error) {
	var all []found
	for _, s := range sources {
		objects, err := s.conn.Objects(ctx, s.list, s.options...)
		if err != nil {
			return nil, err
		}
		all = append(all, found{s.place, named(objects, names)})
	}
	return all, nil
}

// sources are what has to be listed.
func (g *getter) sources(names []string) ([]source, error) {
	selector, err := labels.Parse(g.selector)
	if err != nil {
		return nil, failf("for instance -l team=shop", "%w", err)
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: selector}}
	if g.namespaced && !g.allNamespaces {
		namespace, err := g.app.clusters.Namespace()
		if err != nil {
			return nil, err
		}
		options = append(options, client.InNamespace(namespace))
	}
	if len(names) == 1 { // who may see one by name may see it here too
		options = append(options, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", names[0])})
	}
	conns, err := g.connect()
	if err != nil {
		return nil, err
	}
	var all []source
	for i, conn := range conns {
		g.assumed = g.assumed || conn.Assumed
		for _, list := range g.lists {
			s := source{conn: conn, list: list.DeepCopyObject().(client.ObjectList), options: options}
			if len(g.places) > 0 {
				s.place = g.places[i]
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// named are the objects with one of the names; all of them where there are none.
func named(objects []client.Object, names []string) []client.Object {
	if len(names) == 0 {
		return objects
	}
	return slices.DeleteFunc(objects, func(o client.Object) bool { return !slices.Contains(names, o.GetName()) })
}
