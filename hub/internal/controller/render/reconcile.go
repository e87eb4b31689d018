package render

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/audit"
	"dynamic-config.rs/fleet/hub/internal/classes"
	"dynamic-config.rs/fleet/hub/internal/feed"
	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// Clusters are the spokes' mirrors.
type Clusters interface {
	Get(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error)
	Names() []string
}

// Feeds give the latest version of a document and wake the reconciler for a newer.
type Feeds interface {
	Subscribe(sub feed.Subscriber, src feed.Source, key policy.Key, interval time.Duration) feed.Snapshot
	Release(sub feed.Subscriber)
	Refresh(sub feed.Subscriber, request string) feed.Snapshot
}

// Outbox takes the answers.
type Outbox interface {
	Connected(cluster string) bool
	Deliver(cluster string, id fleet.ID, a fleet.Answer)
}

// Reconciler answers Renders.
type Reconciler struct {
	Clusters Clusters
	// Hub reads SpokeClusters from the hub's cache.
	Hub     client.Reader
	Classes *classes.Resolver
	Feeds   Feeds
	Outbox  Outbox
	Hasher  fleet.Hasher
	// Audit takes decisions that differ from the Render's last; nil for none.
	Audit *audit.Log
}

// job is one Render on its way through the steps.
type job struct {
	sub      feed.Subscriber
	render   *v1alpha1.DynamicConfigRender
	key      policy.Key
	class    *classes.Class
	document *feed.Document
	content  *fleet.Content
	// owesSync: the fetch that the Render asks for has not ended.
	owesSync bool
}

// step does one thing for a job. A *refusal ends the job with that answer, errWait
// without one, any other error is tried again.
type step func(ctx context.Context, j *job) error

// errWait: the answer comes later; a feed wakes the Render.
var errWait = errors.New("waiting for the document")

// Reconcile answers one Render.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (ctrl.Result, error) {
	j := &job{sub: feed.Subscriber{Cluster: req.ClusterName.String(), Namespace: req.Namespace, Name: req.Name}}
	wanted, err := r.lookUp(ctx, j, req)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !wanted {
		r.Feeds.Release(j.sub)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.conclude(ctx, j, r.run(ctx, j))
}

// run takes a job through its steps, in the order that keeps a document from who
// may not have it.
func (r *Reconciler) run(ctx context.Context, j *job) error {
	for _, do := range []step{
		r.canonicalKey, // one form of the key for policy, cache and store
		r.findClass,    // ClassNotFound
		r.allow,        // ClassNotAllowed
		r.subscribe,    // the feed's snapshot
		r.protect,      // a secret stays out of a ConfigMap
		r.render,       // once per version of the document
	} {
		if err := do(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// lookUp reads the Render from its spoke's mirror. It reports false for one that
// nobody wants an answer for.
func (r *Reconciler) lookUp(ctx context.Context, j *job, req mcreconcile.Request) (bool, error) {
	if !r.Outbox.Connected(j.sub.Cluster) {
		return false, nil
	}
	cl, err := r.Clusters.Get(ctx, req.ClusterName)
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	j.render = &v1alpha1.DynamicConfigRender{}
	err = cl.GetClient().Get(ctx, req.NamespacedName, j.render)
	if apierrors.IsNotFound(err) {
		r.Audit.ForgetRender(j.sub.Cluster, j.sub.Namespace, j.sub.Name)
		return false, nil
	}
	return !j.render.Spec.Suspend, err
}

// conclude turns the end of the steps into the answer.
func (r *Reconciler) conclude(ctx context.Context, j *job, err error) error {
	answer := fleet.Answer{
		UID: string(j.render.UID), Generation: j.render.Generation,
		Content: j.content,
	}
	if !j.owesSync {
		answer.HandledSync = syncRequest(j.render)
	}
	var no *refusal
	switch {
	case errors.Is(err, errWait):
		return nil
	case errors.As(err, &no):
		if no.leaves {
			r.Feeds.Release(j.sub)
		}
		answer.Content, answer.Refusal = nil, &no.Refusal
		ctrl.LoggerFrom(ctx).V(1).Info("Refused", "reason", no.ReadyReason, "cause", no.CauseReason)
	case err != nil:
		return err
	}
	r.record(ctx, j, no)
	r.Outbox.Deliver(j.sub.Cluster, fleet.ID{Namespace: j.sub.Namespace, Name: j.sub.Name}, answer)
	return nil
}

// record tells the audit log who is given or refused what. A store or a document that
// fails decides about nobody.
func (r *Reconciler) record(ctx context.Context, j *job, no *refusal) {
	d := audit.Decision{
		Cluster: j.sub.Cluster, Namespace: j.sub.Namespace, Render: j.sub.Name,
		Class: classes.RefOf(j.render).String(), Key: j.render.Spec.Key, Verdict: audit.Allowed,
	}
	switch {
	case no == nil:
		d.Version = j.content.SourceVersion
	case no.rule == "":
		return
	default:
		d.Verdict, d.Reason, d.Rule = audit.Refused, cmp.Or(no.CauseReason, no.ReadyReason), string(no.rule)
	}
	r.Audit.Decide(ctx, d)
}

func (r *Reconciler) canonicalKey(_ context.Context, j *job) error {
	key, err := policy.CanonicalKey(j.render.Spec.Key)
	if err != nil {
		return keyInvalid(err)
	}
	j.key = key
	return nil
}

func (r *Reconciler) findClass(ctx context.Context, j *job) error {
	class, err := r.Classes.Find(ctx, classes.RefOf(j.render))
	if errors.Is(err, classes.ErrNotFound) {
		return classNotFound(classes.RefOf(j.render))
	}
	j.class = class
	return err
}

// allow asks the policy. The labels are those of the hub's object: what a spoke says
// of itself counts for nothing.
func (r *Reconciler) allow(ctx context.Context, j *job) error {
	spoke := &v1alpha1.SpokeCluster{}
	if err := r.Hub.Get(ctx, client.ObjectKey{Name: j.sub.Cluster}, spoke); client.IgnoreNotFound(err) != nil {
		return err
	}
	who := policy.Requester{
		Cluster: j.sub.Cluster, ClusterLabels: spoke.Labels, Namespace: j.sub.Namespace,
		Accepted: spoke.Spec.Accepted, Suspended: spoke.Spec.Suspend,
	}
	if no := policy.Evaluate(who, j.class.Policy, policy.Request{Key: j.key}); no != nil {
		return notAllowed(no)
	}
	return nil
}

// subscribe joins the document's feed; the last good document is kept there while
// the store fails, but what is told is the failure. Where a sync is asked for, the
// document is fetched now, and the sync is handled once that fetch has ended.
func (r *Reconciler) subscribe(ctx context.Context, j *job) error {
	source, err := r.Classes.Source(ctx, j.class)
	if unusable, ok := errors.AsType[*store.Error](err); ok {
		return unreadable(j.class, unusable, true)
	}
	if err != nil {
		return err
	}
	snapshot := r.Feeds.Subscribe(j.sub, source, j.key, time.Duration(j.render.Spec.EffectiveInterval())*time.Second)
	if asked := syncRequest(j.render); asked != "" {
		snapshot = r.Feeds.Refresh(j.sub, asked)
		j.owesSync = snapshot.Owed
	}
	if snapshot.Err != nil {
		return fetchFailed(j.class, snapshot.Err)
	}
	if snapshot.Document == nil {
		return errWait
	}
	j.document = snapshot.Document
	return nil
}

// syncRequest is the value of the annotation that asks for a fetch now.
func syncRequest(o client.Object) string {
	return o.GetAnnotations()[v1alpha1.AnnotationSyncRequestedAt]
}

func (r *Reconciler) protect(_ context.Context, j *job) error {
	if no := policy.SecretTarget(j.document.Secret, j.render.Spec.Target.IsSecret()); no != nil {
		return downgrade(no)
	}
	return nil
}
