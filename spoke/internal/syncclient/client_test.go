package syncclient_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"dynamic-config.rs/fleet/spoke/internal/hubtest"
	"dynamic-config.rs/fleet/spoke/internal/syncclient"
)

func TestRun_WithoutEvidenceNothingIsSent(t *testing.T) {
	h := hubtest.Start(t, hubtest.Settings{})
	broken := &account{down: errors.New("forbidden")}
	a := start(t, h, func(c *syncclient.Config) { c.Evidence = broken })
	gomega.NewWithT(t).Eventually(a.keeper.looked, patience).Should(gomega.BeNumerically(">", 3))
	a.stop()
	if n := len(h.Enrolments()); n != 0 || a.Enrolled() {
		t.Errorf("want no enrolment, got %d", n)
	}
}

func TestConfig_Validate(t *testing.T) {
	good := syncclient.Config{
		Address: "hub:443", ServerName: "hub", CAFile: "ca.crt", Cluster: "east", TrustDomain: "d", Evidence: &account{},
		Credentials: &keeper{}, Receiver: newReceiver(),
	}
	cases := map[string]struct {
		change  func(*syncclient.Config)
		wantErr string
	}{
		"a full configuration is fine": {change: func(*syncclient.Config) {}},
		"an address needs a port":      {change: func(c *syncclient.Config) { c.Address = "hub" }, wantErr: "hub address"},
		"a server name is needed":      {change: func(c *syncclient.Config) { c.ServerName = "" }, wantErr: "server name"},
		"a CA is needed":               {change: func(c *syncclient.Config) { c.CAFile = "" }, wantErr: "CA file"},
		"a cluster is needed":          {change: func(c *syncclient.Config) { c.Cluster = "" }, wantErr: "cluster name"},
		"a trust domain is needed":     {change: func(c *syncclient.Config) { c.TrustDomain = "" }, wantErr: "trust domain"},
		"evidence is needed":           {change: func(c *syncclient.Config) { c.Evidence = nil }, wantErr: "enrol with"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := good
			tc.change(&config)
			err := config.Validate()
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want %q, got %v", tc.wantErr, err)
			}
		})
	}
}

func TestError_CarriesTheReasonOfTheHub(t *testing.T) {
	err := syncclient.FromStatus(hubtest.Denied(codes.Unauthenticated, "CertificateExpired"))
	var typed *syncclient.Error
	if !errors.As(err, &typed) || typed.Reason != "CertificateExpired" || typed.Code != codes.Unauthenticated {
		t.Errorf("got %v", err)
	}
}

func TestError_CarriesTheHubsHint(t *testing.T) {
	refused, err := status.New(codes.ResourceExhausted, "too often").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	var typed *syncclient.Error
	if !errors.As(syncclient.FromStatus(refused.Err()), &typed) || typed.RetryAfter != 7*time.Second {
		t.Errorf("got %v", typed)
	}
}
