package syncclient

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// keysInterval is how often the cluster's keys are looked at, give or take a fifth.
// Kubernetes publishes a key long before it signs with it alone.
const keysInterval = 10 * time.Minute

// watchKeys tells the hub of the cluster's keys at the session's begin, and when they
// change, until the context ends. Not being able to read them is no reason to end the
// session: enrolment with keys that the hub knows goes on.
func (s *session) watchKeys(ctx context.Context) error {
	log := logr.FromContextOrDiscard(ctx)
	var told *fleetv1.ClusterKeys
	for {
		keys, err := s.config.Evidence.Keys(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			log.Info("The cluster's keys cannot be read, so the hub does not learn of new ones", "cause", err.Error())
		case !proto.Equal(keys, told):
			select {
			case s.keys <- keys:
				told = keys
			case <-ctx.Done():
			}
		}
		if !pause(ctx, uniform(keysInterval-keysInterval/5, keysInterval+keysInterval/5)) {
			return context.Cause(ctx)
		}
	}
}
