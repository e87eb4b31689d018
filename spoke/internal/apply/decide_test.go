package apply

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

var contentA = []byte{0xaa, 1}

// renderOf is a Render named pg that wants the Secret pg.
func renderOf(change ...func(*v1alpha1.DynamicConfigRender)) *v1alpha1.DynamicConfigRender {
	r := &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "pg", UID: "uid-ours", Generation: 3,
			CreationTimestamp: metav1.NewTime(time.Unix(1000, 0)),
		},
		Spec: v1alpha1.DynamicConfigRenderSpec{Target: v1alpha1.RenderTarget{Secret: "pg"}},
	}
	for _, f := range change {
		f(r)
	}
	return r
}

// fields is a managed fields entry over data keys.
func fields(manager string, op metav1.ManagedFieldsOperationType, keys ...string) metav1.ManagedFieldsEntry {
	quoted := make([]string, 0, len(keys))
	for _, k := range keys {
		quoted = append(quoted, fmt.Sprintf("%q:{}", "f:"+k))
	}
	raw := fmt.Sprintf(`{"f:data":{%s}}`, strings.Join(quoted, ","))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: op, FieldsV1: fieldsOf(raw)}
}

// targetOf is the target of a Render as Apply leaves it, with the keys a and b.
func targetOf(r *v1alpha1.DynamicConfigRender, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	target := Metadata("Secret")
	target.Namespace, target.Name, target.ResourceVersion = r.Namespace, "pg", "7"
	target.Labels = labelsFor(r)
	target.Annotations = annotationsFor(r, contentA, 2)
	target.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(r, v1alpha1.GroupVersion.WithKind(renderKind))}
	target.ManagedFields = []metav1.ManagedFieldsEntry{
		fields(v1alpha1.FieldManager, metav1.ManagedFieldsOperationApply, "a", "b"),
	}
	for _, f := range change {
		f(target)
	}
	return target
}

// owned replaces the managed fields of a target.
func owned(entries ...metav1.ManagedFieldsEntry) func(*metav1.PartialObjectMetadata) {
	return func(t *metav1.PartialObjectMetadata) { t.ManagedFields = entries }
}

// foreign makes a target bear no mark of ours.
func foreign(t *metav1.PartialObjectMetadata) {
	t.Labels, t.Annotations, t.OwnerReferences = nil, nil, nil
	t.ManagedFields = []metav1.ManagedFieldsEntry{fields("helm", metav1.ManagedFieldsOperationUpdate, "a")}
}

// controlledBy makes another controller own a target.
func controlledBy(t *metav1.PartialObjectMetadata) {
	foreign(t)
	t.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-web", Controller: new(true),
	}}
}

func TestDecide(t *testing.T) {
	ours := renderOf()
	adopting := renderOf(func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Adopt = true })
	retaining := renderOf(func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.DeletionPolicy = v1alpha1.DeletionRetain })
	olderRival := renderOf(func(r *v1alpha1.DynamicConfigRender) {
		r.Name, r.UID, r.CreationTimestamp = "first", "uid-first", metav1.NewTime(time.Unix(500, 0))
	})
	youngerRival := renderOf(func(r *v1alpha1.DynamicConfigRender) {
		r.Name, r.UID, r.CreationTimestamp = "second", "uid-second", metav1.NewTime(time.Unix(2000, 0))
	})
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	us := v1alpha1.FieldManager

	cases := map[string]struct {
		s          situation
		want       plan
		wantReason string
		wantInText string
	}{
		"the agent's own identity is no target, also to adopt": {
			s: situation{render: renderOf(func(r *v1alpha1.DynamicConfigRender) {
				r.Spec.Target.Secret, r.Spec.Target.ConfigMap, r.Spec.Target.Adopt = "dynamic-config-spoke-identity", "", true
			})},
			wantReason: v1alpha1.ReasonTargetInvalid, wantInText: "own identity",
		},
		"nothing there is created": {s: situation{render: ours}, want: plan{action: actCreate}},
		"the same content unharmed is left alone": {
			s: situation{render: ours, target: targetOf(ours)}, want: plan{action: actNothing},
		},
		"other content is written without force": {
			s: situation{render: ours, target: targetOf(ours), contentID: []byte{0xbb}}, want: plan{action: actUpdate},
		},
		"a key edited by hand is taken back": {
			s: situation{render: ours, target: targetOf(ours, owned(
				fields(us, apply, "a"), fields("kubectl-edit", update, "b")))},
			want: plan{action: actUpdate, force: true},
		},
		"a key removed by hand is written again without force": {
			s:    situation{render: ours, target: targetOf(ours, owned(fields(us, apply, "a")))},
			want: plan{action: actUpdate},
		},
		"a key of others that the document gains is not taken": {
			s: situation{
				render: ours, keys: []string{"a", "b", "c"}, contentID: []byte{0xbb},
				target: targetOf(ours, owned(fields(us, apply, "a", "b"), fields("other", update, "c"))),
			},
			want: plan{action: actUpdate},
		},
		"a key that another manager claims by apply is not taken": {
			s: situation{render: ours, target: targetOf(ours, owned(
				fields(us, apply, "a"), fields("argocd", apply, "b")))},
			want: plan{action: actUpdate},
		},
		"keys of others that we do not want are no reason for force": {
			s: situation{
				render: ours, contentID: []byte{0xbb},
				target: targetOf(ours, owned(fields(us, apply, "a", "b"), fields("other", update, "z"))),
			},
			want: plan{action: actUpdate},
		},
		"an object without a mark is refused": {
			s:          situation{render: ours, target: targetOf(ours, foreign)},
			wantReason: v1alpha1.ReasonTargetNotOwned, wantInText: `Secret "pg"`,
		},
		"an object without a mark is adopted when asked": {
			s:    situation{render: adopting, target: targetOf(ours, foreign)},
			want: plan{action: actTakeOver, force: true},
		},
		"another controller's object is refused although adopt is set": {
			s:          situation{render: adopting, target: targetOf(ours, controlledBy)},
			wantReason: v1alpha1.ReasonTargetConflict, wantInText: `Deployment "web"`,
		},
		"an older Render keeps its target": {
			s:          situation{render: ours, target: targetOf(olderRival), rival: olderRival},
			wantReason: v1alpha1.ReasonTargetConflict, wantInText: `"first"`,
		},
		"a younger Render loses its target": {
			s:    situation{render: ours, target: targetOf(youngerRival), rival: youngerRival},
			want: plan{action: actTakeOver},
		},
		"a target of a Render that is gone is taken over": {
			s:    situation{render: ours, target: targetOf(olderRival)},
			want: plan{action: actTakeOver},
		},
		"a change to Retain is written although the content is the same": {
			s:    situation{render: retaining, target: targetOf(ours)},
			want: plan{action: actUpdate},
		},
		"our target without its label is still ours": {
			s: situation{render: ours, target: targetOf(ours, func(t *metav1.PartialObjectMetadata) {
				t.Labels, t.OwnerReferences = nil, nil
			})},
			want: plan{action: actUpdate},
		},
		"a target that is being deleted is waited for": {
			s: situation{render: ours, target: targetOf(ours, func(t *metav1.PartialObjectMetadata) {
				t.DeletionTimestamp = new(metav1.Now())
			})},
			wantReason: v1alpha1.ReasonApplyFailed,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.s.contentID == nil {
				tc.s.contentID = contentA
			}
			if tc.s.keys == nil {
				tc.s.keys = []string{"a", "b"}
			}
			got, err := decide(tc.s)
			if tc.wantReason == "" {
				if err != nil || got != tc.want {
					t.Fatalf("want %+v, got %+v, %v", tc.want, got, err)
				}
				return
			}
			var refused *Error
			if !errors.As(err, &refused) || refused.Reason != tc.wantReason {
				t.Fatalf("want reason %s, got %v", tc.wantReason, err)
			}
			if !strings.Contains(refused.Message, tc.wantInText) {
				t.Errorf("want %q in %q", tc.wantInText, refused.Message)
			}
		})
	}
}

func TestIntact(t *testing.T) {
	ours := renderOf()
	set := func(key, value string) func(*metav1.PartialObjectMetadata) {
		return func(t *metav1.PartialObjectMetadata) { t.Annotations[key] = value }
	}
	cases := map[string]struct {
		render *v1alpha1.DynamicConfigRender
		target *metav1.PartialObjectMetadata
		want   []byte
	}{
		"no target":                {render: ours},
		"as applied":               {render: ours, target: targetOf(ours), want: contentA},
		"of another Render":        {render: renderOf(func(r *v1alpha1.DynamicConfigRender) { r.UID = "uid-new" }), target: targetOf(ours)},
		"content id taken off":     {render: ours, target: targetOf(ours, set(v1alpha1.AnnotationContentID, ""))},
		"content id made nonsense": {render: ours, target: targetOf(ours, set(v1alpha1.AnnotationContentID, "zz"))},
		"number of keys changed":   {render: ours, target: targetOf(ours, set(v1alpha1.AnnotationDataKeys, strconv.Itoa(9)))},
		"another type is wanted": {
			render: renderOf(func(r *v1alpha1.DynamicConfigRender) { r.Spec.Target.Type = "example.com/a" }), target: targetOf(ours),
		},
		"one key is no longer ours": {
			render: ours,
			target: targetOf(ours, owned(fields(v1alpha1.FieldManager, metav1.ManagedFieldsOperationApply, "a"))),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Intact(tc.render, tc.target); hex.EncodeToString(got) != hex.EncodeToString(tc.want) {
				t.Errorf("want %x, got %x", tc.want, got)
			}
		})
	}
}

func fieldsOf(raw string) *metav1.FieldsV1 {
	fields := &metav1.FieldsV1{}
	fields.SetRawString(raw)
	return fields
}
