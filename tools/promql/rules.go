package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
)

// readRules reads and validates a file of rules.
func readRules(file string) ([]rulefmt.Rule, error) {
	groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, promQL, slog.Default())
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}

// record adds the series that rules record at a time.
func (m memory) record(ctx context.Context, rules []rulefmt.Rule, at time.Duration) error {
	for _, rule := range rules {
		if rule.Record == "" {
			continue
		}
		vector, err := m.query(ctx, rule.Expr, at)
		if err != nil {
			return fmt.Errorf("%s: %w", rule.Record, err)
		}
		for _, sample := range vector {
			m.add(named(sample, rule.Record, rule.Labels), at, sample.F)
		}
	}
	return nil
}

// named is a sample's labels with the name and the labels that a rule gives it.
func named(s promql.Sample, name string, more map[string]string) labels.Labels {
	b := labels.NewBuilder(s.Metric).Set(labels.MetricName, name)
	for key, value := range more {
		b.Set(key, value)
	}
	return b.Labels()
}
