package spoke_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"dynamic-config.rs/fleet/spoke"
	"dynamic-config.rs/fleet/spoke/internal/hubtest"
)

func TestConfig_Validate(t *testing.T) {
	dir, roots := t.TempDir(), hubtest.Start(t, hubtest.Settings{}).CAFile
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cases := map[string]struct {
		change  func(*spoke.Config)
		wantErr string
	}{
		"a full configuration is fine":       {change: func(*spoke.Config) {}},
		"the API server is needed":           {change: func(c *spoke.Config) { c.REST = nil }, wantErr: "API server"},
		"a cluster's name is a DNS label":    {change: func(c *spoke.Config) { c.Cluster = "east.eu" }, wantErr: `--cluster "east.eu"`},
		"a cluster is needed":                {change: func(c *spoke.Config) { c.Cluster = "" }, wantErr: "--cluster is required"},
		"the agent has a namespace":          {change: func(c *spoke.Config) { c.Namespace = "" }, wantErr: "namespace"},
		"watched namespaces have good names": {change: func(c *spoke.Config) { c.WatchNamespaces = []string{"a b"} }, wantErr: `namespace "a b"`},
		"a hub is needed":                    {change: func(c *spoke.Config) { c.HubAddress = "" }, wantErr: "--hub-address is required"},
		"an address has no scheme":           {change: func(c *spoke.Config) { c.HubAddress = "https://hub:8443" }, wantErr: "--hub-address is host:port, without a scheme"},
		"an address has a port":              {change: func(c *spoke.Config) { c.HubAddress = "hub" }, wantErr: `--hub-address is host:port: "hub"`},
		"an address has a host":              {change: func(c *spoke.Config) { c.HubAddress = ":8443" }, wantErr: "--hub-address is host:port"},
		"the hub's roots are needed":         {change: func(c *spoke.Config) { c.HubCAFile = "" }, wantErr: "--hub-ca-file is required"},
		"their file is there":                {change: func(c *spoke.Config) { c.HubCAFile = filepath.Join(dir, "none") }, wantErr: "no such file"},
		"it is not empty":                    {change: func(c *spoke.Config) { c.HubCAFile = write("empty", "") }, wantErr: "no certificate in PEM"},
		"it is PEM":                          {change: func(c *spoke.Config) { c.HubCAFile = write("text", "<html>") }, wantErr: "no certificate in PEM"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := spoke.Config{
				REST: &rest.Config{}, HubAddress: "hub:8443", HubCAFile: roots, Cluster: "east", Namespace: "dynamic-config-system",
			}
			tc.change(&config)
			err := config.Validate()
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("want %q, got %v", tc.wantErr, err)
			}
		})
	}
}
