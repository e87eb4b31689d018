package web

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// What a user needs a right to. It is a subresource that exists in RBAC alone: who may
// list SpokeClusters does not see with that which Renders all tenants have.
const (
	viewVerb        = "get"
	viewResource    = "spokeclusters"
	viewSubresource = "renders"
)

var (
	// errUnknown: the API server does not vouch for the token.
	errUnknown = errors.New("the API server does not accept this token")
	// errForbidden: the user may not see the page.
	errForbidden = fmt.Errorf("this user may not %s %s/%s in %s", viewVerb, viewResource, viewSubresource, v1alpha1.GroupVersion.Group)
)

// Creator makes reviews: a client.Client.
type Creator interface {
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// reviewer asks the API server who people are and what they may.
type reviewer struct {
	api Creator
	// audience that a token must be meant for; the API server's own when empty.
	audience string
}

// identify says whose a token is, or errUnknown. Any other error is that nobody can be
// asked.
func (r *reviewer) identify(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if r.audience != "" {
		review.Spec.Audiences = []string{r.audience}
	}
	if err := r.api.Create(silent(ctx), review); err != nil {
		return authenticationv1.UserInfo{}, fmt.Errorf("review a token: %w", err)
	}
	// An authenticator that knows no audiences answers without ours.
	meant := r.audience == "" || slices.Contains(review.Status.Audiences, r.audience)
	if !review.Status.Authenticated || !meant {
		return authenticationv1.UserInfo{}, errUnknown
	}
	return review.Status.User, nil
}

// permit says whether a user may see the page: nil, or errForbidden. Any other error is
// that nobody can be asked.
func (r *reviewer) permit(ctx context.Context, user *authenticationv1.UserInfo) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: viewVerb, Group: v1alpha1.GroupVersion.Group, Version: "*", Resource: viewResource, Subresource: viewSubresource,
		},
	}}
	for name, values := range user.Extra {
		review.Spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	if err := r.api.Create(silent(ctx), review); err != nil {
		return fmt.Errorf("review a user's access: %w", err)
	}
	if !review.Status.Allowed {
		return errForbidden
	}
	return nil
}

// silent keeps the client from logging bodies of requests, at a level that a person
// might choose: a token is in one.
func silent(ctx context.Context) context.Context { return ctrl.LoggerInto(ctx, logr.Discard()) }
