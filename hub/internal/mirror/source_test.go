package mirror

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func object(name string) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// list is the version and the number of objects of a list.
func list(t *testing.T, s *source) (version string, n int) {
	t.Helper()
	got, err := s.ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	renders, ok := got.(*metav1.List)
	if !ok {
		t.Fatalf("list is a %T", got)
	}
	return renders.ResourceVersion, len(renders.Items)
}

func TestSource_ListWaitsForTheFirstInventory(t *testing.T) {
	s := newSource()
	s.upsert(object("early"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ListWithContext(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a list of what is not whole")
	}
	s.replace(nil)
	if _, n := list(t, s); n != 0 {
		t.Errorf("%d objects of an empty inventory", n)
	}
}

// What the informer was given stays as it was given, whatever comes after.
func TestSource_WhatWasToldNeverChanges(t *testing.T) {
	s := newSource()
	s.replace([]*v1alpha1.DynamicConfigRender{object("web")})
	version, _ := list(t, s)
	told, err := s.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Stop()
	var events []watch.Event
	next := func() *v1alpha1.DynamicConfigRender {
		e := <-told.ResultChan()
		events = append(events, e)
		return e.Object.(*v1alpha1.DynamicConfigRender).DeepCopy()
	}
	var before []*v1alpha1.DynamicConfigRender
	s.upsert(object("web"))
	before = append(before, next())
	s.replace([]*v1alpha1.DynamicConfigRender{object("web")})
	before = append(before, next())
	s.replace(nil)
	before = append(before, next())
	for i, e := range events {
		if !equality.Semantic.DeepEqual(e.Object, before[i]) {
			t.Errorf("event %d was %v and is %v", i, before[i], e.Object)
		}
	}
}

// A watch that would begin with a gap asks for another list instead.
func TestSource_AWatchHasNoGap(t *testing.T) {
	s := newSource()
	s.replace([]*v1alpha1.DynamicConfigRender{object("web")})
	version, _ := list(t, s)
	s.remove(types.NamespacedName{Namespace: "shop", Name: "web"})
	if _, err := s.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: version}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error %v", err)
	}
	version, n := list(t, s)
	if n != 0 {
		t.Errorf("%d objects after the removal", n)
	}
	first, err := s.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	if _, open := <-first.ResultChan(); open {
		t.Error("there are two watches")
	}
	s.upsert(object("new"))
	if e := <-second.ResultChan(); e.Type != watch.Added {
		t.Errorf("event %v", e.Type)
	}
	second.Stop()
}
