package docs_test

import (
	"testing"

	"dynamic-config.rs/fleet/internal/testenv"
)

// cluster is a real API server with the CustomResourceDefinitions installed.
var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { cluster = c }, testenv.WithoutControllers)
}
