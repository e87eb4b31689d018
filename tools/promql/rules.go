package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
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

// firing is an alert that fires.
type firing struct {
	Labels, Annotations map[string]string
}

// evaluation evaluates rules again and again, as a Prometheus does.
type evaluation struct {
	memory
	rules []rulefmt.Rule
	// since is when an alert became active, by its name and labels.
	since map[string]time.Duration
	fires map[string][]firing // by name, at the last step
}

func newEvaluation(m memory, rules []rulefmt.Rule) *evaluation {
	return &evaluation{memory: m, rules: rules, since: map[string]time.Duration{}}
}

// step evaluates every rule once.
func (e *evaluation) step(ctx context.Context, now time.Duration) error {
	e.fires = map[string][]firing{}
	active := map[string]bool{}
	for _, rule := range e.rules {
		vector, err := e.query(ctx, rule.Expr, now)
		if err != nil {
			return fmt.Errorf("%s%s: %w", rule.Alert, rule.Record, err)
		}
		for _, sample := range vector {
			if rule.Record != "" {
				e.add(named(sample, rule.Record, rule.Labels), now, sample.F)
				continue
			}
			id := rule.Alert + sample.Metric.String()
			active[id] = true
			if _, ok := e.since[id]; !ok {
				e.since[id] = now
			}
			if now-e.since[id] < time.Duration(rule.For) {
				continue
			}
			alert, err := expand(ctx, rule, sample)
			if err != nil {
				return err
			}
			e.fires[rule.Alert] = append(e.fires[rule.Alert], alert)
		}
	}
	maps.DeleteFunc(e.since, func(id string, _ time.Duration) bool { return !active[id] })
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

// expand makes the alert of a sample.
func expand(ctx context.Context, rule rulefmt.Rule, s promql.Sample) (firing, error) {
	own := s.Metric.Map()
	delete(own, labels.MetricName)
	alert := firing{Labels: maps.Clone(own), Annotations: map[string]string{}}
	data := template.AlertTemplateData(own, nil, "", s)
	for _, texts := range []struct{ from, to map[string]string }{{rule.Labels, alert.Labels}, {rule.Annotations, alert.Annotations}} {
		for _, key := range slices.Sorted(maps.Keys(texts.from)) {
			text := "{{$labels := .Labels}}{{$value := .Value}}" + texts.from[key]
			expanded, err := template.NewTemplateExpander(ctx, text, rule.Alert, data, model.Time(s.T), nil, nil, nil).Expand()
			if err != nil {
				return firing{}, err
			}
			texts.to[key] = expanded
		}
	}
	return alert, nil
}
