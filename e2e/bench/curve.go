package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// point is the cost of one size of fleet.
type point struct{ renders, seconds float64 }

// curve measures how the time until all are current, and memory, grow with the fleet.
func curve(ctx context.Context, r *rig) error {
	if err := r.put(ctx, 100, "0"); err != nil {
		return err
	}
	var points []point
	for _, spokes := range []int{10, 100, 1000} {
		for _, renders := range []int{1, 10, 100} {
			p, err := r.point(ctx, spokes, renders)
			if err != nil {
				return err
			}
			points = append(points, p)
		}
	}
	r.report.add("curve", "growth of the time: exponent over Renders (1 is linear)", exponent(points), "")
	return nil
}

func (r *rig) point(ctx context.Context, spokes, renders int) (point, error) {
	phase := fmt.Sprintf("curve %dx%d", spokes, renders)
	before, err := r.stage.Hub.Usage(ctx)
	if err != nil {
		return point{}, err
	}
	f, err := r.connect(ctx, fmt.Sprintf("curve-%d-%d", spokes, renders), spokes, renders, shared)
	if err != nil {
		return point{}, err
	}
	if err := f.current(ctx); err != nil {
		return point{}, err
	}
	took := time.Since(f.began)
	after, err := r.stage.Hub.Usage(ctx)
	if err != nil {
		return point{}, err
	}
	r.report.seconds(phase, "until all are current", took)
	r.report.add(phase, "hub's processor time for it", after.CPU-before.CPU, "s")
	r.report.add(phase, "hub's resident memory", after.Memory/(1<<20), "MiB")
	return point{float64(spokes * renders), took.Seconds()}, f.leave(ctx)
}

// exponent fits seconds = a * renders^b by least squares over the logarithms and answers
// b, from the points that take long enough to tell.
func exponent(points []point) float64 {
	const telling = 0.5
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.seconds < telling {
			continue
		}
		x, y := math.Log(p.renders), math.Log(p.seconds)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
