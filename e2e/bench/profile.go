package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// profileSeconds is how much of a step a profile of the processor covers.
const profileSeconds = 15

// profiles are what /debug/pprof is asked for.
const (
	profileHeap       = "heap"
	profileGoroutines = "goroutine"
	profileProcessor  = "profile"
)

// keepProfile writes a profile of the hub to the folder of -profiles, if there is one.
func (r *rig) keepProfile(ctx context.Context, step, kind string) error {
	if r.profiles == "" {
		return nil
	}
	url := r.stage.Hub.Replicas[0].ProfilesURL + "/" + kind
	if kind == profileProcessor {
		url += fmt.Sprintf("?seconds=%d", profileSeconds)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	if err := os.MkdirAll(r.profiles, 0o750); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.profiles, step+"."+kind+".pb.gz"))
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}

// whileProfiled does a step of which the processor's time is kept.
func (r *rig) whileProfiled(ctx context.Context, step string, do func() error) error {
	var group errgroup.Group
	group.Go(func() error { return r.keepProfile(ctx, step, profileProcessor) })
	return errors.Join(do(), group.Wait())
}
