package e2e_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"dynamic-config.rs/fleet/e2e/internal/chaos"
)

// A minute of random changes, then every target is render(spec, store) and every status
// tells the truth. To replay a failure: go run ./e2e/soak -seed N -v.
func TestConsistency_AfterRandomChangesEveryTargetAndStatusIsTrue(t *testing.T) {
	token, err := consul.ReadToken(t.Context(), "chaos/")
	if err != nil {
		t.Fatal(err)
	}
	if fleet.Hub.Proxy != nil { // else somebody else runs as many as he does
		scale(t, 2)
		defer toOneReplica(t)
	}
	seed := rand.Uint64()
	report, err := chaos.Run(t.Context(), chaos.Config{
		Stage: fleet, Store: consul, Endpoint: consul.Addr, Token: token,
		Seed: seed, For: time.Minute, Log: func(string, ...any) {},
	})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("seed %d: moves %v; %d Renders and %d targets compared, right after %.1f s",
		seed, report.Moves, report.Renders, report.Targets, report.Settled.Seconds())
	for _, mismatch := range report.Mismatches {
		t.Errorf("seed %d: %s", seed, mismatch)
	}
}
