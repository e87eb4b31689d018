package main

import (
	"context"
	"os"
	"time"
)

// parentEvery is how often it is looked whether the parent lives.
const parentEvery = 500 * time.Millisecond

// endWithParent ends the context it returns when the process that started this one,
// make or a shell, is gone: one that was killed passes no signal on. The servers and
// programs that this process started end with it.
func endWithParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() { // ends with ctx
		tick := time.NewTicker(parentEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if os.Getppid() != parent {
					cancel()
				}
			}
		}
	}()
	return ctx, cancel
}
