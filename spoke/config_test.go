package spoke_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/spoke"
)

func TestConfig_Validate(t *testing.T) {
	cases := map[string]struct {
		change  func(*spoke.Config)
		wantErr string
	}{
		"a full configuration is fine":       {change: func(*spoke.Config) {}},
		"the API server is needed":           {change: func(c *spoke.Config) { c.REST = nil }, wantErr: "API server"},
		"a cluster's name is a DNS label":    {change: func(c *spoke.Config) { c.Cluster = "east.eu" }, wantErr: `cluster name "east.eu"`},
		"the agent has a namespace":          {change: func(c *spoke.Config) { c.Namespace = "" }, wantErr: "namespace"},
		"watched namespaces have good names": {change: func(c *spoke.Config) { c.WatchNamespaces = []string{"a b"} }, wantErr: `namespace "a b"`},
		"a hub is needed":                    {change: func(c *spoke.Config) { c.HubAddress = "" }, wantErr: "hub address"},
		"the hub's roots are needed":         {change: func(c *spoke.Config) { c.HubCAFile = "" }, wantErr: "hub CA"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := spoke.Config{
				REST: &rest.Config{}, HubAddress: "hub:8443", HubCAFile: "ca.crt", Cluster: "east", Namespace: "dynamic-config-system",
			}
			tc.change(&config)
			err := config.Validate()
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want %q, got %v", tc.wantErr, err)
			}
		})
	}
}
