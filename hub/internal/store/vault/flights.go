package vault

import (
	"context"
	"errors"

	"golang.org/x/sync/singleflight"
)

// flights let one of many callers do what all of them need.
type flights struct {
	group singleflight.Group
}

// do calls work, unless a call of that name is under way: then it waits for that
// one's end and answers its error. The end of the context of the caller that works
// is nobody else's error: another one works then.
func (f *flights) do(ctx context.Context, name string, work func() error) error {
	for {
		_, err, _ := f.group.Do(name, func() (any, error) { return nil, work() })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
}
