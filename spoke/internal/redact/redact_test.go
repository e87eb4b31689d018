package redact_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"dynamic-config.rs/fleet/spoke/internal/redact"
)

const canary = "canary-77ab"

func TestServerText(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTeapot,
		Message: `admission webhook "w.example" denied the request: ` + canary,
	}}
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a denial keeps its place and loses its words": {
			apierrors.NewForbidden(secrets, "pg", errors.New(canary)), `the API server answered Forbidden (403) for secrets "pg"`,
		},
		"a webhook chooses reason, code and words": {webhook, "the API server answered I'm a teapot (418)"},
		"an invalid object keeps its fields": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "pg", field.ErrorList{
				field.Invalid(field.NewPath("data").Key("a"), canary, canary), field.Required(field.NewPath("type"), canary),
			}),
			`the API server answered Invalid (422) for Secret "pg": data[a], type`,
		},
		"an answer inside another error": {
			fmt.Errorf("write %s: %w", canary, apierrors.NewConflict(secrets, "pg", errors.New(canary))),
			`the API server answered Conflict (409) for secrets "pg"`,
		},
		"no answer at all": {errors.New("connection refused"), "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			got := redact.ServerText(tc.err)
			if got.Error() != tc.want || strings.Contains(got.Error(), canary) {
				t.Errorf("want %q, got %q", tc.want, got)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the cause is lost")
			}
		})
	}
	if redact.ServerText(nil) != nil {
		t.Error("no error became one")
	}
}

func TestFields_AreBounded(t *testing.T) {
	var all field.ErrorList
	for i := range 30 {
		all = append(all, field.Required(field.NewPath("data").Key(fmt.Sprint(i)), ""))
	}
	if got := redact.Fields(apierrors.NewInvalid(schema.GroupKind{}, "", all)); strings.Count(got, ",") != 10 || !strings.HasSuffix(got, "...") {
		t.Errorf("got %s", got)
	}
}
