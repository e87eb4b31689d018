package testenv_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"dynamic-config.rs/fleet/internal/testenv"
)

// helperVariable makes this test binary a program that starts servers, says
// their processes on its standard output and then behaves as the value says.
const helperVariable = "TESTENV_HELPER"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(helperVariable); behaviour != "" {
		helper(behaviour)
		return
	}
	m.Run()
}

// helper never ends well.
func helper(behaviour string) {
	cluster, err := testenv.Start(context.Background(), testenv.Options{Dir: os.Getenv("TESTENV_DIR")})
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(cluster.PIDs()); err != nil {
		panic(err)
	}
	if behaviour == "panic" {
		go panic("as a test would in a goroutine of its own")
	}
	select {} // until the panic, or until the parent kills us
}
