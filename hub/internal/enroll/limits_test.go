package enroll_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"dynamic-config.rs/fleet/hub/internal/enroll"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
	"dynamic-config.rs/fleet/internal/identity"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

var tooMany = spoketest.Verdict{Code: codes.ResourceExhausted, Reason: identity.ReasonTooManyRequests}

// counting refuses everything and counts, at a clock that stands.
type counting struct {
	enroll.Registry
	asked int
}

func (c *counting) Verify(context.Context, string, registry.Proof) error {
	c.asked++
	return &identity.Error{Reason: identity.ReasonEvidenceInvalid}
}

func TestEnroll_Limits(t *testing.T) {
	from := func(address string) context.Context {
		return grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1}})
	}
	one := proving(t, "prod", spoketest.NewIssuer(t))
	for title, tc := range map[string]struct {
		cluster, address func(i int) string
		admitted         int
	}{
		"one agent that asks again and again": {
			func(int) string { return "prod" }, func(int) string { return "192.0.2.1" }, 5,
		},
		"one source with many names": {
			func(i int) string { return fmt.Sprintf("spoke-%d", i) }, func(int) string { return "192.0.2.1" }, 25,
		},
		"one host with all addresses of its network": {
			func(i int) string { return fmt.Sprintf("spoke-%d", i) }, func(i int) string { return fmt.Sprintf("2001:db8::%d", i+1) }, 25,
		},
		"many sources": {
			func(i int) string { return fmt.Sprintf("spoke-%d", i) }, func(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }, 50,
		},
		"many sources that claim one name": {
			func(int) string { return "prod" }, func(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }, 50,
		},
	} {
		t.Run(title, func(t *testing.T) {
			known, now := &counting{}, time.Now()
			service := enroll.New(enroll.Config{
				Signer: spoketest.Authority(t), Registry: known, TrustDomain: spoketest.TrustDomain, Lifetime: lifetime,
				Now: func() time.Time { return now },
			})
			var refused error
			for i := range 100 {
				req := &fleetv1.EnrollRequest{Cluster: tc.cluster(i), CsrDer: one.GetCsrDer(), Evidence: one.GetEvidence()}
				if _, err := service.Enroll(from(tc.address(i)), req); spoketest.VerdictOf(err) != evidenceInvalid {
					refused = err
				}
			}
			if known.asked != tc.admitted {
				t.Errorf("%d were admitted, want %d", known.asked, tc.admitted)
			}
			if got := spoketest.VerdictOf(refused); got != tooMany {
				t.Fatalf("verdict %+v", got)
			}
			again := retryDelay(refused)
			if again <= 0 {
				t.Fatal("it does not say when to try again")
			}
			now = now.Add(again)
			_, err := service.Enroll(from(tc.address(99)), &fleetv1.EnrollRequest{Cluster: tc.cluster(99), CsrDer: one.GetCsrDer(), Evidence: one.GetEvidence()})
			if got := spoketest.VerdictOf(err); got != evidenceInvalid {
				t.Errorf("after it: %+v", got)
			}
		})
	}
}

// retryDelay is when a refusal says to try again.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return retry.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// hanging answers when it is told to.
type hanging struct {
	enroll.Registry
	asked chan struct{}
}

func (h *hanging) Verify(ctx context.Context, _ string, _ registry.Proof) error {
	h.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// An API server that hangs does not collect enrolments without end.
func TestEnroll_RunsABoundedNumberAtOnce(t *testing.T) {
	const running = 32
	known := &hanging{asked: make(chan struct{})}
	service := enroll.New(enroll.Config{
		Signer: spoketest.Authority(t), Registry: known, TrustDomain: spoketest.TrustDomain, Lifetime: lifetime, Now: time.Now,
	})
	issuer := spoketest.NewIssuer(t)
	ask := func(i int) error {
		ctx := grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(i)), Port: 1}})
		ctx, cancel := context.WithCancel(ctx)
		t.Cleanup(cancel)
		_, err := service.Enroll(ctx, proving(t, "prod", issuer))
		return err
	}
	for i := range running {
		go func() { _ = ask(i) }() // until the test ends
		<-known.asked
	}
	if got := spoketest.VerdictOf(ask(running)); got != tooMany {
		t.Errorf("one more: %+v", got)
	}
}
