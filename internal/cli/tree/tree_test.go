package tree_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/cli/kube"
	"dynamic-config.rs/fleet/internal/cli/tree"
)

var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string, age time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.Add(-age))}
}

func render(conditions ...metav1.Condition) *v1alpha1.DynamicConfigRender {
	return &v1alpha1.DynamicConfigRender{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: v1alpha1.DynamicConfigRenderSpec{
			Class: "vault", ClassKind: v1alpha1.ClassKindCluster, Key: "secret/postgres",
			Target: v1alpha1.RenderTarget{Secret: "pg"},
		},
		Status: v1alpha1.DynamicConfigRenderStatus{Conditions: conditions},
	}
}

func TestOf(t *testing.T) {
	class := kube.ClassOf(&v1alpha1.ClusterDynamicConfigClass{
		Spec:   v1alpha1.ClusterDynamicConfigClassSpec{ClassCommon: v1alpha1.ClassCommon{Source: v1alpha1.SourceVault}},
		Status: v1alpha1.ClassStatus{Conditions: []metav1.Condition{condition("Ready", "True", "ClassReady", "fine", 72*time.Hour)}},
	})
	namespaced := render()
	namespaced.Spec.ClassKind = ""
	for name, c := range map[string]struct {
		parts tree.Parts
		want  string
	}{
		"all is well": {
			tree.Parts{
				Render: render(condition("Ready", "True", "Rendered", "m", time.Hour), condition("Fetched", "True", "Fetched", "m", time.Hour), condition("Applied", "True", "Applied", "m", time.Hour)),
				Class:  class,
				Target: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationDataKeys: "3"}}},
			},
			`
NAME                                          STATUS REASON     AGE MESSAGE
dynamicconfigrender/shop/db                   True   Rendered   60m
├─ class/ClusterDynamicConfigClass/vault      True   ClassReady 3d
│  └─ vault/secret/postgres                   True   Fetched    60m
└─ target/Secret/pg                           True   Applied    60m 3 data keys`,
		},
		"a cluster that is away is part of it": {
			tree.Parts{
				Render: render(condition("Ready", "True", "Rendered", "m", time.Hour), condition("Fetched", "True", "Fetched", "m", time.Hour), condition("Applied", "True", "Applied", "m", time.Hour)),
				Class:  class,
				Cluster: &v1alpha1.SpokeCluster{
					ObjectMeta: metav1.ObjectMeta{Name: "prod"},
					Status:     v1alpha1.SpokeClusterStatus{Conditions: []metav1.Condition{condition("Ready", "False", "Disconnected", "no agent", time.Minute)}},
				},
			},
			`
NAME                                          STATUS REASON       AGE MESSAGE
dynamicconfigrender/shop/db                   True   Rendered     60m
├─ spokecluster/prod                          False  Disconnected 60s no agent
├─ class/ClusterDynamicConfigClass/vault      True   ClassReady   3d
│  └─ vault/secret/postgres                   True   Fetched      60m
└─ target/Secret/pg                           True   Applied      60m`,
		},
		"what nobody could read says why": {
			tree.Parts{Render: namespaced, ClassNote: "needs the hub", TargetNote: "does not exist"},
			`
NAME                                       STATUS  REASON AGE MESSAGE
dynamicconfigrender/shop/db                Unknown
├─ class/DynamicConfigClass/shop/vault     Unknown            needs the hub
│  └─ document/secret/postgres             Unknown
└─ target/Secret/pg                        Unknown            does not exist`,
		},
		"a lost hub and a failed apply": {
			tree.Parts{
				Render:     render(condition("Ready", "False", "RenderFailed", "no", time.Minute), condition("Applied", "False", "TargetNotOwned", "not ours", time.Minute), condition("Stale", "True", "HubLost", "gone", time.Hour)),
				Class:      class,
				TargetNote: "is there",
			},
			`
NAME                                          STATUS  REASON         AGE MESSAGE
dynamicconfigrender/shop/db                   False   RenderFailed   60s no
├─ hub session                                Lost    HubLost        60m gone
├─ class/ClusterDynamicConfigClass/vault      True    ClassReady     3d
│  └─ vault/secret/postgres                   Unknown
└─ target/Secret/pg                           False   TargetNotOwned 60s is there; not ours`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(tree.Of(&c.parts).Table(now), &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(squeeze(c.want), squeeze(out.String())); diff != "" {
				t.Errorf("-want +got:\n%s\n%s", diff, out.String())
			}
		})
	}
}

// squeeze makes one blank of many, so that a case does not depend on column widths.
func squeeze(text string) []string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
