package kubernetes

import (
	"context"
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// The first segments of a key.
const (
	configMaps = "configmaps"
	secrets    = "secrets"
)

// Store reads the objects of one namespace.
type Store struct {
	kinds map[string]*objects
}

var _ store.Watcher = (*Store)(nil)

// New answers a store of a namespace's objects; it talks to the API server from the
// first read on. Without a namespace it answers an *store.Error with ClassInvalid.
func New(client kubernetes.Interface, namespace string) (*Store, error) {
	if namespace == "" {
		return nil, &store.Error{
			Reason: v1alpha1.ReasonClassInvalid, Op: store.OpOpen, Err: errors.New("no namespace to read is named"),
		}
	}
	return &Store{kinds: map[string]*objects{
		configMaps: newObjects(configMapsOf(client, namespace), &corev1.ConfigMap{}),
		secrets:    newObjects(secretsOf(client, namespace), &corev1.Secret{}),
	}}, nil
}

// Close ends the informers.
func (s *Store) Close() error {
	for _, kind := range s.kinds {
		kind.close()
	}
	return nil
}

// Fetch reads a document.
func (s *Store) Fetch(ctx context.Context, key policy.Key) (*store.Document, error) {
	at, err := s.find("fetch", key)
	if err != nil {
		return nil, err
	}
	return at.read(ctx)
}

// Watch blocks until the document's version is another than after.
func (s *Store) Watch(ctx context.Context, key policy.Key, after string) (*store.Document, error) {
	at, err := s.find("watch", key)
	if err != nil {
		return nil, err
	}
	// Before the first read, so that no change is missed between read and wait.
	waiter := at.kind.wait(at.name)
	defer func() { at.kind.leave(at.name, waiter) }()
	for {
		doc, err := at.read(ctx)
		switch {
		case err == nil && doc.Version != after:
			return doc, nil
		case err != nil && (after != "" || !store.IsAbsent(err)):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-waiter.changed:
		}
		waiter = at.kind.wait(at.name)
	}
}

// place is where a key points.
type place struct {
	op, key       string
	kind          *objects
	name, dataKey string
	secret        bool
}

// find takes a key apart.
func (s *Store) find(op string, key policy.Key) (place, error) {
	parts := key.Segments()
	at := place{op: op, key: string(key), kind: s.kinds[parts[0]], secret: parts[0] == secrets}
	switch {
	case at.kind == nil || len(parts) < 2 || len(parts) > 3:
		return place{}, at.failure(v1alpha1.ReasonKeyInvalid,
			errors.New("the key is not configmaps/NAME or secrets/NAME, with or without /DATA-KEY"))
	case len(parts) == 3:
		at.dataKey = parts[2]
	}
	at.name = parts[1]
	return at, nil
}

func (p place) failure(reason string, err error) error {
	return &store.Error{Reason: reason, Op: p.op, Key: p.key, Err: err}
}

// read takes the document out of the cache.
func (p place) read(ctx context.Context) (*store.Document, error) {
	object, err := p.kind.get(ctx, p.name)
	if refusal, ok := errors.AsType[*store.Error](err); ok {
		return nil, &store.Error{
			Reason: refusal.Reason, Op: p.op, Key: p.key, RetryAfter: refusal.RetryAfter, Err: refusal.Err,
		}
	}
	if err != nil {
		return nil, err
	}
	version, values := content(object)
	doc := &store.Document{Version: version, Secret: p.secret}
	if p.dataKey == "" {
		doc.Values = values
		return doc, nil
	}
	text, ok := values[p.dataKey]
	if !ok {
		return nil, p.failure(v1alpha1.ReasonDocumentNotFound, errors.New("the object has no such data key"))
	}
	doc.Text = text
	return doc, nil
}

// content answers an object's version and data; the bytes are the cache's.
func content(object any) (string, map[string][]byte) {
	values := map[string][]byte{}
	switch object := object.(type) {
	case *corev1.Secret:
		maps.Copy(values, object.Data)
		return object.ResourceVersion, values
	case *corev1.ConfigMap:
		maps.Copy(values, object.BinaryData)
		for key, value := range object.Data {
			values[key] = []byte(value)
		}
		return object.ResourceVersion, values
	}
	return "", values
}
