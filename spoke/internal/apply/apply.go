package apply

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// maxAttempts bounds how often a write is decided anew because the target changed
// between reading and writing. Each attempt is a read and a write; what loses
// three times in a row is left to the caller's backoff.
const maxAttempts = 3

// Applier writes targets.
type Applier struct {
	// Client reads and writes ConfigMaps and Secrets without a cache.
	Client client.Client
	// Targets reads the metadata of targets from a cache, so that a target that is
	// there costs one request. Where the cache is late the server refuses the write,
	// and the target is read from there.
	Targets client.Reader
	// Renders reads Renders; it may be a cache.
	Renders client.Reader
}

// Desired is what a target should hold.
type Desired struct {
	// Render owns the target.
	Render *v1alpha1.DynamicConfigRender
	// ContentID identifies Data.
	ContentID []byte
	// Data are the keys and values.
	Data map[string][]byte
}

// size is the number of bytes in the values, which is what the API server bounds.
func (d *Desired) size() int {
	n := 0
	for _, value := range d.Data {
		n += len(value)
	}
	return n
}

// Result says what an Apply found or left.
type Result struct {
	// Written is false when the target held the content already.
	Written bool
	// NewContent says that the target did not hold this content before; a write
	// may also be about ownership alone.
	NewContent bool
	// ResourceVersion of the target.
	ResourceVersion string
}

// Apply makes the target hold the content, with at most one write that changes
// it. It fails with an *Error.
func (a *Applier) Apply(ctx context.Context, d Desired) (Result, error) {
	if err := check(d); err != nil {
		return Result{}, err
	}
	for attempt := 1; ; attempt++ {
		result, err := a.attempt(ctx, d, attempt > 1)
		if attempt == maxAttempts || !changedMeanwhile(err) {
			return result, err
		}
	}
}

// attempt reads, decides and writes once; live without the cache.
func (a *Applier) attempt(ctx context.Context, d Desired, live bool) (Result, error) {
	target, err := a.read(ctx, d.Render, live)
	if err != nil {
		return Result{}, classify(d.Render, err)
	}
	rival, err := a.rival(ctx, d.Render, target)
	if err != nil {
		return Result{}, classify(d.Render, err)
	}
	p, err := decide(situation{
		render: d.Render, contentID: d.ContentID, keys: slices.Collect(maps.Keys(d.Data)),
		target: target, rival: rival,
	})
	if err != nil {
		return Result{}, err
	}
	if p.action == actNothing {
		return Result{ResourceVersion: target.ResourceVersion}, nil
	}
	return a.write(ctx, d, target, p)
}

// changedMeanwhile says whether the target changed between read and write.
func changedMeanwhile(err error) bool {
	return apierrors.IsConflict(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// read returns the metadata of the object of the target's name; nil for none. What
// the cache does not have may be there without our label.
func (a *Applier) read(ctx context.Context, render *v1alpha1.DynamicConfigRender, live bool) (*metav1.PartialObjectMetadata, error) {
	target := Metadata(render.Spec.Target.Kind())
	key := client.ObjectKey{Namespace: render.Namespace, Name: render.Spec.Target.Name()}
	if !live && a.Targets.Get(ctx, key, target) == nil {
		return target, nil
	}
	if err := a.Client.Get(ctx, key, target); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return target, nil
}

// Metadata returns an empty object that stands for the metadata of a core kind.
func Metadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// rival returns the other Render that the target belongs to, if it still exists
// and still names the target.
func (a *Applier) rival(
	ctx context.Context, render *v1alpha1.DynamicConfigRender, target *metav1.PartialObjectMetadata,
) (*v1alpha1.DynamicConfigRender, error) {
	if target == nil {
		return nil, nil
	}
	owner := ownerUID(render, target)
	if owner == "" || owner == render.UID {
		return nil, nil
	}
	// By UID and not by the annotation's name: somebody may have changed that.
	var all v1alpha1.DynamicConfigRenderList
	if err := a.Renders.List(ctx, &all, client.InNamespace(render.Namespace)); err != nil {
		return nil, err
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == owner && other.DeletionTimestamp.IsZero() && sameTarget(other, render) {
			return other, nil
		}
	}
	return nil, nil
}

// sameTarget says whether two Renders of a namespace name one object.
func sameTarget(a, b *v1alpha1.DynamicConfigRender) bool {
	return a.Spec.Target.Kind() == b.Spec.Target.Kind() && a.Spec.Target.Name() == b.Spec.Target.Name()
}

// write applies the target server-side.
func (a *Applier) write(ctx context.Context, d Desired, target *metav1.PartialObjectMetadata, p plan) (Result, error) {
	options := []client.ApplyOption{client.FieldOwner(v1alpha1.FieldManager)}
	if p.force {
		options = append(options, client.ForceOwnership)
	}
	meta := metadataFor(d, target)
	var err error
	if d.Render.Spec.Target.IsSecret() {
		secret := corev1ac.Secret(*meta.Name, *meta.Namespace).
			WithType(corev1.SecretType(secretType(d.Render))).WithData(d.Data)
		secret.ObjectMetaApplyConfiguration = meta
		err = a.Client.Apply(ctx, secret, options...)
	} else {
		text, binary := splitText(d.Data)
		configMap := corev1ac.ConfigMap(*meta.Name, *meta.Namespace).WithData(text).WithBinaryData(binary)
		configMap.ObjectMetaApplyConfiguration = meta
		err = a.Client.Apply(ctx, configMap, options...)
	}
	if err != nil {
		return Result{}, a.explain(ctx, d, target == nil, err)
	}
	for label, value := range labelsFor(d.Render) {
		if meta.Labels[label] != value {
			return Result{}, refusal(d.Render, v1alpha1.ReasonTargetConflict, nil,
				"was written, and an admission plugin changed its label %s: it cannot be kept", label)
		}
	}
	written := target == nil || target.ResourceVersion != *meta.ResourceVersion
	return Result{
		Written: written, NewContent: !bytes.Equal(heldContent(target), d.ContentID),
		ResourceVersion: *meta.ResourceVersion,
	}, nil
}

// metadataFor is the metadata the target should bear. The resource version makes
// the server refuse the write when the target is no longer what was decided on.
func metadataFor(d Desired, target *metav1.PartialObjectMetadata) *metav1ac.ObjectMetaApplyConfiguration {
	meta := metav1ac.ObjectMeta().
		WithName(d.Render.Spec.Target.Name()).
		WithNamespace(d.Render.Namespace).
		WithLabels(labelsFor(d.Render)).
		WithAnnotations(annotationsFor(d.Render, d.ContentID, len(d.Data)))
	if target != nil {
		meta.WithResourceVersion(target.ResourceVersion)
	}
	if d.Render.Spec.Target.EffectiveDeletionPolicy() == v1alpha1.DeletionDelete {
		meta.WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind(renderKind).
			WithName(d.Render.Name).WithUID(d.Render.UID).
			WithController(true).WithBlockOwnerDeletion(false))
	}
	return meta
}

// splitText parts values a ConfigMap can hold as text from those it cannot.
func splitText(data map[string][]byte) (text map[string]string, binary map[string][]byte) {
	text, binary = make(map[string]string), make(map[string][]byte)
	for key, value := range data {
		if utf8.Valid(value) {
			text[key] = string(value)
		} else {
			binary[key] = value
		}
	}
	return text, binary
}

// explain maps an answer to a write to an Error. Forbidden is what RBAC says and
// what admission says, so the server is asked which of the two it was.
func (a *Applier) explain(ctx context.Context, d Desired, create bool, err error) *Error {
	if isTooLarge(err) {
		return refusal(d.Render, v1alpha1.ReasonDocumentTooLarge, err,
			"was not written: %d bytes in %d keys are too large for the API server", d.size(), len(d.Data))
	}
	render := d.Render
	explained := classify(render, err)
	if explained.Reason != v1alpha1.ReasonApplyForbidden {
		return explained
	}
	verbs := []string{"patch"}
	if create {
		verbs = append(verbs, "create")
	}
	for _, verb := range verbs {
		if allowed, known := a.permitted(ctx, render, verb); !allowed || !known {
			return explained
		}
	}
	return refusal(render, v1alpha1.ReasonAdmissionDenied, err, "was not written: an admission plugin denied it")
}

// permitted asks whether the agent may do something with the target.
func (a *Applier) permitted(ctx context.Context, render *v1alpha1.DynamicConfigRender, verb string) (allowed, known bool) {
	resource := "configmaps"
	if render.Spec.Target.IsSecret() {
		resource = "secrets"
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: render.Namespace, Verb: verb, Version: "v1", Resource: resource, Name: render.Spec.Target.Name(),
		},
	}}
	if err := a.Client.Create(ctx, review); err != nil {
		return false, false
	}
	return review.Status.Allowed, true
}

// ReasonOf returns the reason of an Error, and ApplyFailed for any other error.
func ReasonOf(err error) string {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Reason
	}
	return v1alpha1.ReasonApplyFailed
}
