package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPIServer_WhatIsMissingIsNamed(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ kubeconfig, want string }{
		"no configuration":            {"", "no API server: name a file with --kubeconfig; in a pod, its ServiceAccount"},
		"a configuration that is bad": {broken, "find the API server by --kubeconfig or, in a pod, its ServiceAccount: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tc.kubeconfig)
			t.Setenv("HOME", t.TempDir())
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			_, err := apiServer()
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
				t.Errorf("got %v", err)
			}
		})
	}
}
