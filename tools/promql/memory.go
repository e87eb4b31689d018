package main

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var promQL = parser.NewParser(parser.Options{})

// memory holds series.
type memory map[string]*series

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// sample is a chunks.Sample: a number at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }

// add adds a sample, later than the series' last; times are from the beginning on.
func (m memory) add(l labels.Labels, at time.Duration, value float64) {
	s, ok := m[l.String()]
	if !ok {
		s = &series{labels: l}
		m[l.String()] = s
	}
	s.samples = append(s.samples, sample{at.Milliseconds(), value})
}

// names are those of the metrics that have series.
func (m memory) names() map[string]bool {
	names := map[string]bool{}
	for _, s := range m {
		names[s.labels.Get(labels.MetricName)] = true
	}
	return names
}

// query evaluates an expression at a time.
func (m memory) query(ctx context.Context, expr string, at time.Duration) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, Parser: promQL,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	})
	defer engine.Close()
	query, err := engine.NewInstantQuery(ctx, m, nil, expr, time.UnixMilli(at.Milliseconds()))
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	if scalar, ok := result.Value.(promql.Scalar); ok {
		return promql.Vector{{T: scalar.T, F: scalar.V}}, nil
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// Querier is storage.Queryable's.
func (m memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &set{}
		for _, s := range m {
			if !slices.ContainsFunc(matchers, func(is *labels.Matcher) bool { return !is.Matches(s.labels.Get(is.Name)) }) {
				found.left = append(found.left, s)
			}
		}
		slices.SortFunc(found.left, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
		return found
	}}, nil
}

// set is a storage.SeriesSet.
type set struct {
	left []*series
	now  *series
}

func (s *set) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.now, s.left = s.left[0], s.left[1:]
	return true
}

func (s *set) At() storage.Series              { return storage.NewListSeries(s.now.labels, s.now.samples) }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }
