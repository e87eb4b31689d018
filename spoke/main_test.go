package spoke_test

import (
	"testing"

	"dynamic-config.rs/fleet/internal/testenv"
)

// cluster is the workload cluster that the tests of this package share.
var cluster *testenv.Cluster

func TestMain(m *testing.M) { testenv.Main(m, func(c *testenv.Cluster) { cluster = c }) }
