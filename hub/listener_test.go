package hub

import (
	"context"
	"errors"
	"net"
	"testing"

	"golang.org/x/time/rate"
)

func TestPaced_AConnectionBeyondTheBurstWaitsForItsTurn(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A turn an hour: who gets in after the burst did not wait.
	const burst = 2
	limited := paced(ctx, listener, rate.NewLimiter(rate.Limit(1.0/3600), burst))
	for n := range burst + 1 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if n == burst {
			cancel()
		}
		accepted, err := limited.Accept()
		switch {
		case n < burst && err != nil:
			t.Fatalf("connection %d is not accepted: %v", n, err)
		case n == burst && !errors.Is(err, context.Canceled):
			t.Errorf("connection %d is accepted at once: %v, %v", n, accepted, err)
		}
	}
}
