package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/satoken"
	"dynamic-config.rs/fleet/internal/identity"
)

var (
	errNotPinned   = errors.New("no keys of the cluster are pinned")
	errKeysStated  = errors.New("spec.keys is set: a join token pins nothing")
	errWrongToken  = errors.New("the join token is another, or none is set")
	errTokenOver   = errors.New("the join token is over")
	errTokenUsed   = errors.New("the join token was used")
	errUnknownName = errors.New("no SpokeCluster has this name")
)

// Proof is a token of the agent's ServiceAccount and the only audience it may have.
type Proof struct {
	Token, Audience string
}

// Joining is what an agent brings to its first contact.
type Joining struct {
	// JoinToken permits to pin Keys.
	JoinToken string
	// Proof is verified against Keys.
	Proof Proof
	// Keys are what the agent's API server publishes.
	Keys v1alpha1.ClusterKeys
}

// Verify checks a proof against a cluster's pinned keys, then that the cluster is
// admitted. Nothing is told about the cluster before the proof holds.
func (r *Registry) Verify(ctx context.Context, cluster string, proof Proof) error {
	c, err := r.get(ctx, cluster)
	if err != nil {
		return hideUnknown(err)
	}
	if err := r.prove(c, proof); err != nil {
		if !joins(c) {
			r.Refusals.tell(c, err, r.Now())
		}
		return err
	}
	return Admitted(c)
}

// prove checks a proof against a cluster's pinned keys.
func (r *Registry) prove(c *v1alpha1.SpokeCluster, proof Proof) error {
	keys, err := pinned(c)
	if err != nil {
		return evidenceInvalid(err)
	}
	return r.check(c, keys, proof)
}

// Join uses a cluster's join token up and pins the keys it came with, in place of
// those that an earlier token pinned. A refusal leaves the token as it was.
func (r *Registry) Join(ctx context.Context, cluster string, j Joining) error {
	return retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return hideUnknown(err)
		}
		keys, err := r.redeem(c, j)
		if err != nil {
			r.Refusals.tell(c, err, r.Now())
			return err
		}
		if err := Admitted(c); err != nil {
			return err
		}
		if c.Status.Keys, err = stored(keys); err != nil {
			return err
		}
		c.Status.RedeemedJoinToken = c.Spec.JoinToken.SHA256
		setKeysPinned(c, keys, keys)
		return r.Status.Update(ctx, c) // a conflict means somebody else may have used it: look again
	})
}

// redeem returns the keys that a join token permits to pin, which its proof fits.
func (r *Registry) redeem(c *v1alpha1.SpokeCluster, j Joining) (satoken.Keys, error) {
	if err := r.redeemable(c, j.JoinToken); err != nil {
		return satoken.Keys{}, evidenceInvalid(err)
	}
	keys, err := satoken.ParseKeys(j.Keys.Issuer, []byte(j.Keys.JWKS))
	if err != nil {
		return satoken.Keys{}, &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "the cluster's keys: " + err.Error()}
	}
	return keys, r.check(c, keys, j.Proof)
}

// redeemable says why a join token cannot be used now.
func (r *Registry) redeemable(c *v1alpha1.SpokeCluster, token string) error {
	switch stored := c.Spec.JoinToken; {
	case stored == nil, !identity.JoinTokenMatches(token, stored.SHA256):
		return errWrongToken
	case c.Spec.Keys != nil:
		return errKeysStated
	case !r.Now().Before(stored.ExpiresAt.Time):
		return errTokenOver
	case c.Status.RedeemedJoinToken == stored.SHA256:
		return errTokenUsed
	}
	return nil
}

// ReportKeys compares the keys that a cluster publishes, as its agent says in a
// session, with the pinned ones, and pins what is new where spec.keyUpdates says so.
// Another issuer is never pinned. Nothing new writes nothing.
func (r *Registry) ReportKeys(ctx context.Context, cluster string, reported v1alpha1.ClusterKeys) error {
	published, err := satoken.ParseKeys(reported.Issuer, []byte(reported.JWKS))
	if err != nil {
		return &identity.Error{Reason: identity.ReasonRequestInvalid, Message: "the cluster's keys: " + err.Error()}
	}
	return retry.RetryOnConflict(contention, func() error {
		c, err := r.get(ctx, cluster)
		if err != nil {
			return err
		}
		before := c.Status.DeepCopy()
		if c.Spec.KeyUpdates == v1alpha1.KeyUpdatesAccept {
			if err := accept(c, published); err != nil {
				return err
			}
		}
		known, err := pinned(c)
		if err != nil && !errors.Is(err, errNotPinned) {
			return err
		}
		setKeysPinned(c, published, known)
		if equality.Semantic.DeepEqual(before, &c.Status) {
			return nil
		}
		return r.Status.Update(ctx, c)
	})
}

// accept pins what is new among published keys of the pinned issuer.
func accept(c *v1alpha1.SpokeCluster, published satoken.Keys) error {
	known, err := pinned(c)
	switch {
	case errors.Is(err, errNotPinned):
		known = satoken.Keys{Issuer: published.Issuer}
	case err != nil:
		return err
	}
	if known.Issuer != published.Issuer || len(published.Missing(known)) == 0 {
		return nil
	}
	own := satoken.Keys{Issuer: published.Issuer}
	if c.Status.Keys != nil && c.Status.Keys.Issuer == published.Issuer {
		if own, err = parse("status.keys", c.Status.Keys); err != nil {
			return err
		}
	}
	c.Status.Keys, err = stored(own.Extend(published))
	return err
}

// pinned are the keys that count for a cluster: those of the spec and, of the same
// issuer, those of the status.
func pinned(c *v1alpha1.SpokeCluster) (satoken.Keys, error) {
	spec, status := c.Spec.Keys, c.Status.Keys
	switch {
	case spec == nil && status == nil:
		return satoken.Keys{}, errNotPinned
	case spec == nil:
		return parse("status.keys", status)
	}
	keys, err := parse("spec.keys", spec)
	if err != nil || status == nil || status.Issuer != spec.Issuer {
		return keys, err
	}
	more, err := parse("status.keys", status)
	return keys.Union(more), err
}

func parse(field string, keys *v1alpha1.ClusterKeys) (satoken.Keys, error) {
	parsed, err := satoken.ParseKeys(keys.Issuer, []byte(keys.JWKS))
	if err != nil {
		return satoken.Keys{}, fmt.Errorf("%s: %w", field, err)
	}
	return parsed, nil
}

func stored(keys satoken.Keys) (*v1alpha1.ClusterKeys, error) {
	jwks, err := keys.JWKS()
	if err != nil {
		return nil, err
	}
	return &v1alpha1.ClusterKeys{Issuer: keys.Issuer, JWKS: jwks}, nil
}

// check verifies a proof against keys.
func (r *Registry) check(c *v1alpha1.SpokeCluster, keys satoken.Keys, proof Proof) error {
	err := keys.Verify(proof.Token, satoken.Expected{Subject: subject(c), Audience: proof.Audience, Now: r.Now()})
	if err != nil {
		return evidenceInvalid(err)
	}
	return nil
}

// subject is the agent's ServiceAccount, as a token names it.
func subject(c *v1alpha1.SpokeCluster) string {
	account := v1alpha1.ServiceAccountReference{Namespace: v1alpha1.DefaultSpokeNamespace, Name: v1alpha1.DefaultSpokeServiceAccount}
	if c.Spec.ServiceAccount != nil {
		account = *c.Spec.ServiceAccount
	}
	return "system:serviceaccount:" + account.Namespace + ":" + account.Name
}

// setKeysPinned says whether all published keys are pinned, and names those that are
// not by their IDs alone.
func setKeysPinned(c *v1alpha1.SpokeCluster, published, known satoken.Keys) {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionKeysPinned, ObservedGeneration: c.Generation,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonKeysPinned, Message: "every key that the cluster publishes is pinned",
	}
	switch missing := published.Missing(known); {
	case known.Issuer != "" && known.Issuer != published.Issuer:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonKeysUnknown
		condition.Message = "the cluster's issuer is not the pinned one"
	case len(missing) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonKeysUnknown
		condition.Message = "not pinned: the keys with the IDs " + strings.Join(missing, ", ")
	}
	apimeta.SetStatusCondition(&c.Status.Conditions, condition)
}

// evidenceInvalid is one answer for all evidence that proves nothing, so that names
// cannot be probed. The cause is for the hub's log and events alone.
func evidenceInvalid(cause error) error {
	return fmt.Errorf("%w (%w)", &identity.Error{
		Reason: identity.ReasonEvidenceInvalid, Message: "the evidence does not prove that it comes from this cluster",
	}, cause)
}

// hideUnknown answers for a cluster that is not there as for wrong evidence. A
// failure to look is passed on.
func hideUnknown(err error) error {
	if isRefusal(err) {
		return evidenceInvalid(errUnknownName)
	}
	return err
}
