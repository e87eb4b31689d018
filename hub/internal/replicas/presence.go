package replicas

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// leasePrefix is before a replica's name in that of its Lease.
	leasePrefix = "dynamic-config-hub-replica-"
	// labelReplica marks the Leases of replicas.
	labelReplica = "dynamic-config.rs/hub-replica"
	// renewInterval is how often a replica says that it is alive, Lifetime how long
	// that is believed: three renewals.
	renewInterval = 10 * time.Second
	// endTimeout bounds the delete of a Lease at the end of its replica.
	endTimeout = 5 * time.Second
)

// Lifetime is how long a replica that says nothing is believed to be alive.
const Lifetime = 3 * renewInterval

// Presence is the Lease by which this replica says that it is alive.
type Presence struct {
	leases  coordinationclient.LeaseInterface
	replica string
	began   metav1.MicroTime
}

// NewPresence returns the presence of a replica, which begins now.
func NewPresence(leases coordinationclient.LeaseInterface, replica string) *Presence {
	return &Presence{leases: leases, replica: replica, began: metav1.NowMicro()}
}

// Run keeps the Lease until the context ends, then deletes it. A Lease that cannot be
// written keeps nobody from serving: the error is logged, and it is tried again.
func (p *Presence) Run(ctx context.Context) error {
	tick := time.NewTicker(renewInterval)
	defer tick.Stop()
	for {
		if err := p.renew(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Renewing the replica's lease failed")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return p.end(context.WithoutCancel(ctx))
		}
	}
}

// renew writes the Lease as it should be now, over that of an earlier process of the
// same name too.
func (p *Presence) renew(ctx context.Context) error {
	lease, err := p.leases.Get(ctx, leasePrefix+p.replica, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leasePrefix + p.replica}}
	}
	metav1.SetMetaDataLabel(&lease.ObjectMeta, labelReplica, "true")
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &p.replica, LeaseDurationSeconds: new(int32(Lifetime / time.Second)),
		AcquireTime: &p.began, RenewTime: new(metav1.NowMicro()),
	}
	if missing {
		_, err = p.leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = p.leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// end deletes the Lease: its sessions are closed, and nothing need be waited for.
func (p *Presence) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := p.leases.Delete(ctx, leasePrefix+p.replica, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the replica's lease failed")
	}
	return nil
}

// Validate says whether a replica may have a name: it becomes part of an object's.
func Validate(replica string) error {
	if problems := validation.IsDNS1123Subdomain(leasePrefix + replica); len(problems) > 0 {
		return fmt.Errorf("replica name %q: %s", replica, problems[0])
	}
	return nil
}
